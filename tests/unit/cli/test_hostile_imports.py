"""Test exports of others that were changed at random.

Each is imported and every command shows it, or it is refused with exit status 2 and nothing
remains.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.analysis.history.recording import points_of
from millrace.report.run.formats import FORMATS
from millrace.store.store import Store
from tests.support.explained import study_run
from tests.support.history_points import run_of
from tests.unit.cli.called import call, millrace
from tests.unit.cli.observed_store import keep

Members = dict[str, bytes]

# Characters that move the cursor, set the clipboard or turn the direction of text.
HIDDEN = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)

# Replacements of a value.
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63 - 1, 10**30, 0.0, -1e300, 1e-300, 1e18, "", "x", "9" * 40,
    "../../x", "\x1b]52;c;eA==\x07", "\ud800", "a\u202eb", "2026-W40-1T00:00:00Z",
    "9999-12-31T23:59:59Z", [], {}, [[]], {"x": 1}, [None], float("nan"), float("inf"),
)  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Members:
    """Return an export of a run in which everything was observed, and of one in a history."""
    place = tmp_path_factory.mktemp("exported")
    keep(study_run(profiled=1, counted=True), place / "results.sqlite")
    recorded = run_of("recorded")
    keep(recorded, place / "results.sqlite")
    with Store.open(place / "results.sqlite") as store:
        found = store.load_run("recorded")
        part = points_of(found, reference=None, label="v1", at_utc="2026-01-01T00:00:00Z").part
        store.histories.record(part)
        runs = [run.id for run in store.list_runs()]
        store.export_runs(runs, place / "runs.zip")
    with zipfile.ZipFile(place / "runs.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def mutated(members: Members, seed: int) -> Members:
    """Change a document in an export, and all hashes that depend on it."""
    chance = random.Random(seed)
    members = dict(members)
    manifest = json.loads(members["manifest.json"])
    runs = [json.loads(members[entry["file"]]) for entry in manifest["runs"]]
    files = [
        (artefact, name)
        for run in runs
        for attempt in run["attempts"]
        for artefact in attempt["artefacts"]
        if (name := f"artefacts/{artefact['sha256']}") in members
    ]
    match chance.randrange(5):
        case 0 | 1:
            walk(chance.choice(runs), chance)
        case 2 | 3:
            artefact, name = chance.choice(files)
            document = json.loads(members.pop(name))
            walk(document, chance)
            content = json.dumps(document).encode("utf-8", "surrogatepass")
            sha256 = hashlib.sha256(content).hexdigest()
            members[f"artefacts/{sha256}"] = content
            old = artefact["sha256"]
            for each, _ in files:
                if each["sha256"] == old:
                    each |= {"sha256": sha256, "size_bytes": len(content)}
            for entry in manifest["artefacts"]:
                if entry["sha256"] == old:
                    entry |= {"sha256": sha256, "size_bytes": len(content)}
        case _:
            document = json.loads(members["history.json"])
            walk(document, chance)
            members["history.json"] = json.dumps(document).encode()
            manifest["history"]["sha256"] = hashlib.sha256(members["history.json"]).hexdigest()
    for entry, run in zip(manifest["runs"], runs, strict=True):
        content = json.dumps(run).encode()
        members[entry["file"]] = content
        entry["sha256"] = hashlib.sha256(content).hexdigest()
    if chance.randrange(20) == 0:
        walk(manifest, chance)
    members["manifest.json"] = json.dumps(manifest).encode()
    return members


def walk(document: Any, chance: random.Random) -> None:
    """Change a value at the end of a random path.

    The path ends at each level with the same probability."""
    container, key = document, chance.choice(keys_of(document))
    while isinstance(container[key], dict | list) and container[key] and chance.random() < 0.8:
        container, key = container[key], chance.choice(keys_of(container[key]))
    match chance.randrange(4):
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container.append(container[key])
        case _:
            container[key] = chance.choice(JUNK)


def keys_of(container: Any) -> list[Any]:
    return list(container) if isinstance(container, dict) else list(range(len(container)))


def write(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def files_in(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file())


def imported_or_refused(members: Members, place: Path) -> None:
    file, store = write(place / "runs.zip", members), place / "results.sqlite"
    with Store.open(store):
        pass
    before = files_in(place)
    status = call("results", "import", file, "--store", store)
    if status != 0:
        assert status == 2
        assert files_in(place) == before
        with Store.open(store, read_only=True) as opened:
            assert opened.list_runs() == []
        return
    with Store.open(store, read_only=True) as opened:
        runs = [run.id for run in opened.list_runs()]
    for run in runs:
        shows("results", "show", run, "--store", store)
        for output in FORMATS:
            if output == "html":
                shows("report", run, "--store", store, "--output", place / "report.html")
            else:
                shows("report", run, "--store", store, "--format", output)
        shows("explain", run, "--store", store)
        shows("explain", run, "--store", store, "--json")
    for action in (("history", "show"), ("history", "detect"), ("history", "record", "recorded")):
        options = ("--label", "v2") if action[1] == "record" else ()
        shows(*action, *options, "--store", store)


def shows(*arguments: str | Path) -> None:
    """Check that a command shows its data or says why not, with no hidden text on the terminal."""
    done = millrace(*arguments)
    assert done.returncode in (0, 2, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert not HIDDEN.search(done.stdout + done.stderr)


@settings(max_examples=12, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_a_changed_export_is_imported_whole_or_refused(
    seed: int, exported: Members, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("target")
    try:
        imported_or_refused(mutated(exported, seed), place)
    finally:
        shutil.rmtree(place)
