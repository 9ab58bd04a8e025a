"""Forge archives of runs: export some, edit their documents, and pack them again."""

import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from millrace.store.records import StoredRun
from millrace.store.store import Store
from tests.support.builders import keep

Edit = Callable[[Any], object]


def forged(
    place: Path,
    *runs: StoredRun,
    edit: Edit = lambda _run: None,
    edit_history: Edit | None = None,
    record: Callable[[Store], object] = lambda _store: None,
) -> Path:
    """Return an archive of runs, each edited, and of their histories after ``record``."""
    place.mkdir()
    for run in runs:
        keep(run, place / "theirs.sqlite")
    with Store.open(place / "theirs.sqlite") as store:
        record(store)
        store.export_runs([run.run.id for run in runs], place / "runs.zip")
    return edited(place / "runs.zip", edit, edit_history)


def edited(path: Path, edit: Edit, edit_history: Edit | None = None) -> Path:
    """Edit the documents of an archive, with the hashes and ids that its manifest has of them."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(content["manifest.json"])
    entries = [(entry, edit) for entry in manifest["runs"]]
    if edit_history is not None:
        entries.append((manifest["history"], edit_history))
    for entry, change in entries:
        document = json.loads(content[entry["file"]])
        change(document)
        content[entry["file"]] = json.dumps(document).encode()
        entry["sha256"] = sha256(content[entry["file"]]).hexdigest()
        if "id" in entry:
            entry["id"] = document["run"]["id"]
    content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path
