"""Test histories in exported files."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import UserError
from millrace.store.store import Store
from tests.support.history_points import (
    change,
    point,
)
from tests.support.stored_records import begun
from tests.unit.store.test_histories import HISTORY, part


@pytest.fixture
def exported(store: Store, tmp_path: Path) -> Path:
    """Export a run with a point and a change to a file."""
    what = begun("run-1")
    store.begin_run(what.run, what.treatments, what.trials)
    store.histories.record(part(point(1, 0.9)))
    store.histories.keep([change(1)])
    store.export_runs(["run-1"], tmp_path / "runs.zip")
    return tmp_path / "runs.zip"


def edited(path: Path, edit: Callable[[Any], object], *, keep_hash: bool = False) -> None:
    """Change an exported file's histories, and their hash in the manifest with it."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    raw, manifest = json.loads(content[HISTORY]), json.loads(content["manifest.json"])
    edit(raw)
    content[HISTORY] = json.dumps(raw).encode()
    if not keep_hash:
        manifest["history"]["sha256"] = sha256(content[HISTORY]).hexdigest()
        content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda raw: raw["points"][0][1].update(run_id="x"), "of an unknown series, state or run"),
        (lambda raw: raw["points"].append(raw["points"][0]), "is there 2 times"),
        (lambda raw: raw["points"][0][1].update(ratio=-1), "a ratio is not above 0"),
        (lambda raw: raw["series"].clear(), "of an unknown series, state or run"),
        (lambda raw: raw["changes"][0].update(label="x"), "of an unknown point"),
        (lambda raw: raw["changes"][0].update(state="rumour"), "changes.0.state"),
        (lambda raw: raw["changes"][0].update(id="a; sh b"), "cannot be the id of a change"),
    ],
)
def test_histories_that_contradict_themselves_are_refused(
    edit: Callable[[Any], object], said: str, exported: Path, tmp_path: Path
) -> None:
    edited(exported, edit)
    with Store.open(tmp_path / "other.sqlite") as other:
        with pytest.raises(UserError, match=said):
            other.import_file(exported)
        assert other.list_runs() == []
        assert other.histories.series() == []


def test_histories_that_were_changed_are_refused(exported: Path, tmp_path: Path) -> None:
    edited(exported, lambda raw: raw["series"][0].update(title="x"), keep_hash=True)
    with (
        Store.open(tmp_path / "other.sqlite") as other,
        pytest.raises(UserError, match=r"history\.json was changed"),
    ):
        other.import_file(exported)
