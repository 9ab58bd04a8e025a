"""Test exported files: errors are reported, and nothing of a bad file is imported."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.errors import UserError
from millrace.store import run_archive
from millrace.store.artefacts import Artefacts
from millrace.store.store import Store
from tests.unit.store.stored_records import begun

Members = dict[str, bytes]


def members(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: Members) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data, compress_type=zipfile.ZIP_DEFLATED)


def edit_manifest(content: Members, edit: Callable[[Any], None]) -> None:
    manifest = json.loads(content["manifest.json"])
    edit(manifest)
    content["manifest.json"] = json.dumps(manifest).encode()


def edit_run(content: Members, edit: Callable[[Any], None]) -> None:
    """Change the first run, and its hash in the manifest with it."""
    run = json.loads(content["runs/0001.json"])
    edit(run)
    content["runs/0001.json"] = json.dumps(run).encode()

    def new_hash(manifest: Any) -> None:
        manifest["runs"][0] |= {
            "sha256": sha256(content["runs/0001.json"]).hexdigest(),
            "id": run["run"]["id"],
        }

    edit_manifest(content, new_hash)


def raw_run(content: Members, old: bytes, new: bytes) -> None:
    """Change the first run's bytes, and its hash in the manifest with it."""
    assert old in content["runs/0001.json"]
    content["runs/0001.json"] = content["runs/0001.json"].replace(old, new, 1)
    digest = sha256(content["runs/0001.json"]).hexdigest()
    edit_manifest(content, lambda manifest: manifest["runs"][0].update(sha256=digest))


def nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


def artefact_name(content: Members) -> str:
    return next(name for name in content if name.startswith("artefacts/"))


def run_edit(edit: Callable[[Any], Any]) -> Callable[[Members], None]:
    return lambda content: edit_run(content, edit)


def manifest_edit(edit: Callable[[Any], Any]) -> Callable[[Members], None]:
    return lambda content: edit_manifest(content, edit)


def twice(run: Any, key: str) -> None:
    run[key].append(run[key][0])


def drop_artefact(content: Members) -> None:
    """Remove a file from the archive and from its manifest."""
    name = artefact_name(content)
    del content[name]

    def without(manifest: Any) -> None:
        kept = [entry for entry in manifest["artefacts"] if entry["sha256"] not in name]
        manifest["artefacts"] = kept

    edit_manifest(content, without)


DAMAGE: dict[str, tuple[Callable[[Members], Any], str]] = {
    "no manifest": (lambda c: c.pop("manifest.json"), "holds no manifest.json"),
    "manifest is no JSON": (lambda c: c.update({"manifest.json": b"{"}), "is not JSON"),
    "another format": (manifest_edit(lambda m: m.update(format="x")), "is not a results file"),
    "other version": (manifest_edit(lambda m: m.update(version=2)), "of version 2; this millrace"),
    "no version": (manifest_edit(lambda m: m.pop("version")), "of version None"),
    "wrong manifest": (manifest_edit(lambda m: m["runs"][0].pop("file")), "runs.0.file"),
    "run missing": (lambda c: c.pop("runs/0001.json"), "other files than its manifest.json names"),
    "file missing": (lambda c: c.pop(artefact_name(c)), "other files than its manifest.json names"),
    "one too many": (
        lambda c: c.update({"../../evil": b"x"}),
        "other files than its manifest.json names: ../../evil",
    ),
    "run changed": (
        lambda c: c.update({"runs/0001.json": c["runs/0001.json"] + b" "}),
        "runs/0001.json was changed",
    ),
    "file changed": (
        lambda c: c.update({artefact_name(c): b"\0" * len(c[artefact_name(c)])}),
        "was changed: its name is not its SHA-256",
    ),
    "file too long": (
        lambda c: c.update({artefact_name(c): b"\0" * 10_000_000}),
        "is larger than it should be",
    ),
    "file not listed": (
        drop_artefact,
        "lacks the file",
    ),
    "wrong type": (run_edit(lambda r: r["run"].update(blocks="many")), "run.blocks"),
    "unknown outcome": (
        run_edit(lambda r: r["attempts"][0].update(outcome="maybe")),
        "attempts.0.outcome",
    ),
    "traversal": (run_edit(lambda r: r["run"].update(id="../../evil")), "unusable id '../../evil'"),
    "hidden": (run_edit(lambda r: r["run"].update(id=".")), "unusable id '.'"),
    "no name of a file": (
        run_edit(lambda r: r["run"].update(id="𝔘" * 51)),
        r"runs/0001.json: run.id: unusable id '𝔘+'; expected at most 200 of A-Z a-z 0-9",
    ),
    "too long": (run_edit(lambda r: r["run"].update(id="a" * 201)), "unusable id 'a+'"),
    "a command": (run_edit(lambda r: r["run"].update(id="a;$(sh b)")), r"unusable id 'a;\$\(sh b"),
    "an option": (run_edit(lambda r: r["run"].update(id="--help")), "unusable id '--help'"),
    "whichever is the newest": (
        run_edit(lambda r: r["run"].update(id="latest")),
        "unusable id 'latest'",
    ),
    "another than the manifest says": (
        manifest_edit(lambda m: m["runs"][0].update(id="three")),
        "holds another run than its manifest.json says",
    ),
    "a rate in words": (
        run_edit(lambda r: r["treatments"][0]["levels"].update(clients=1, rate="fast")),
        "rate is 'fast'",
    ),
    "a rate below none": (
        run_edit(lambda r: r["treatments"][0]["levels"].update(clients=1, rate=-1)),
        "rate is -1",
    ),
    "same run twice": (run_edit(lambda r: r["run"].update(id="two")), "run two is there 2 times"),
    "trial of no treatment": (
        run_edit(lambda r: r["trials"][0].update(treatment_id="none")),
        "unknown treatment none",
    ),
    "attempt of no trial": (
        run_edit(lambda r: r["attempts"][0].update(trial_id="none")),
        "unknown trial none",
    ),
    "trial twice": (run_edit(lambda r: twice(r, "trials")), "trial .* is there 2 times"),
    "attempt twice": (run_edit(lambda r: twice(r, "attempts")), "attempt .* is there 2 times"),
    "finished twice": (
        run_edit(lambda r: r["attempts"].append(r["attempts"][0] | {"number": 2})),
        "finished attempt of trial .* is there 2 times",
    ),
    "other histograms": (
        run_edit(lambda r: r["attempts"][0]["artefacts"][0].update(kind="histograms")),
        "holds no histograms",
    ),
    "deeply nested": (
        run_edit(lambda r: r["run"]["host"]["facts"].update(x=nested(70))),
        "nested more than 64 levels",
    ),
    "nested as deeply as nobody reads": (
        lambda c: raw_run(c, b'"seed":7', b'"x":' + b"[" * 50_000 + b"]" * 50_000 + b',"seed":7'),
        "nested more than 64 levels",
    ),
    "not a number": (
        run_edit(lambda r: r["attempts"][0]["measurements"][0].update(value=float("nan"))),
        "NaN is not a valid JSON number",
    ),
    "infinite": (
        lambda c: raw_run(c, b'"value":3.5', b'"value":1e999'),
        "a number is beyond",
    ),
    "larger than a database's integers": (
        run_edit(lambda r: r["run"].update(seed=10**30)),
        "a whole number is beyond",
    ),
    "lone surrogate": (
        run_edit(lambda r: r["run"].update(title="\ud800")),
        "surrogate",
    ),
    "a number as text": (run_edit(lambda r: r["run"].update(seed="7")), "run.seed"),
    "compares nothing": (run_edit(lambda r: r["run"]["spec"].pop("compare")), "spec.compare"),
    "compares no factor": (
        run_edit(lambda r: r["run"]["spec"]["compare"].update(factor="x")),
        "compare.factor 'x' is not a factor",
    ),
    "figures published elsewhere": (
        run_edit(lambda r: r["run"]["spec"].update(published="../../x")),
        "spec.published",
    ),
    "a factor without a level": (
        run_edit(lambda r: r["treatments"][0]["levels"].clear()),
        "has no level of server",
    ),
    "millions of values": (
        lambda c: raw_run(c, b'"seed":7', b'"x":[' + b"[]," * 4_100_000 + b'[]],"seed":7'),
        "more than 8,000,000 values",
    ),
    "packed to a thousandth": (
        lambda c: c.update({artefact_name(c): bytes(300 << 20)}),
        "more than 200 times its own size",
    ),
    "measured twice": (
        run_edit(lambda r: twice(r["attempts"][0], "measurements")),
        "measurement .* is there 2 times",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_as_a_whole(damage: str, exported: Path, tmp_path: Path) -> None:
    change, message = DAMAGE[damage]
    content = members(exported)
    change(content)
    write(exported, content)
    refused_unchanged(exported, tmp_path, message)


def refused_unchanged(file: Path, tmp_path: Path, message: str) -> None:
    with Store.open(tmp_path / "target.sqlite") as store:
        what = begun("mine")
        store.begin_run(what.run, what.treatments, what.trials)
        before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        with pytest.raises(UserError, match=message) as caught:
            store.import_file(file)
        assert caught.value.message.startswith(f"{file}: ")
        assert [run.id for run in store.list_runs()] == ["mine"]
        assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_file_that_was_cut_short_is_refused(kept: float, exported: Path, tmp_path: Path) -> None:
    content = exported.read_bytes()
    exported.write_bytes(content[: int(kept if kept >= 1 else kept * len(content))])
    refused_unchanged(exported, tmp_path, "cut short")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_changed_bit_is_refused_or_changes_nothing(
    place: float, bit: int, exported: Path, tmp_path: Path
) -> None:
    content = bytearray(exported.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    (tmp_path / "changed.zip").write_bytes(content)
    with run_archive.reading(exported) as found:
        runs = [found.run(entry) for entry in found.runs]
    with (
        contextlib.suppress(UserError),
        Artefacts(tmp_path / "files").staging() as staged,
        run_archive.reading(tmp_path / "changed.zip") as changed,
    ):
        # The flipped bit was in a date or another unread field.
        assert [changed.run(entry) for entry in changed.runs] == runs
        changed.stage(staged)
        assert len(list(staged.directory.iterdir())) == 3
