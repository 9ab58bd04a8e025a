"""Test exported files: errors are reported, and nothing of a bad file is imported."""

import contextlib
import json
import struct
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.errors import UserError
from millrace.store import archive as module
from millrace.store.artefacts import Artefacts
from millrace.store.store import Store
from tests.support.history_points import change, part, point
from tests.support.stored_records import begin

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


def put(place: str, value: Any) -> Callable[[Members], None]:
    """Return what sets a value of the first run, by the names and numbers of its place."""

    def edit(run: Any) -> None:
        *way, last = (int(key) if key.isdigit() else key for key in place.split("."))
        for key in way:
            run = run[key]
        run[last] = value

    return run_edit(edit)


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
    "no manifest": (lambda c: c.pop("manifest.json"), "has no manifest.json"),
    "manifest is no JSON": (lambda c: c.update({"manifest.json": b"{"}), "is not JSON"),
    "another format": (manifest_edit(lambda m: m.update(format="x")), "is not a results file"),
    "other version": (
        manifest_edit(lambda m: m.update(version=2)),
        "format version 2; this millrace",
    ),
    "no version": (manifest_edit(lambda m: m.pop("version")), "format version None"),
    "wrong manifest": (manifest_edit(lambda m: m["runs"][0].pop("file")), "runs.0.file"),
    "run missing": (
        lambda c: c.pop("runs/0001.json"),
        "files differ from those listed in its manifest.json",
    ),
    "file missing": (
        lambda c: c.pop(artefact_name(c)),
        "files differ from those listed in its manifest.json",
    ),
    "one too many": (
        lambda c: c.update({"../../evil": b"x"}),
        "files differ from those listed in its manifest.json: ../../evil",
    ),
    "run changed": (
        lambda c: c.update({"runs/0001.json": c["runs/0001.json"] + b" "}),
        "runs/0001.json was changed",
    ),
    "file changed": (
        lambda c: c.update({artefact_name(c): b"\0" * len(c[artefact_name(c)])}),
        "was changed: its SHA-256 differs from its name",
    ),
    "file too long": (
        lambda c: c.update({artefact_name(c): b"\0" * 10_000_000}),
        "is larger than it should be",
    ),
    "file not listed": (drop_artefact, "refers to file .*, which is missing"),
    "wrong type": (put("run.blocks", "many"), "run.blocks"),
    "unknown outcome": (put("attempts.0.outcome", "maybe"), "attempts.0.outcome"),
    "traversal": (put("run.id", "../../evil"), "unusable id '../../evil'"),
    "hidden": (put("run.id", "."), "unusable id '.'"),
    "no name of a file": (
        put("run.id", "𝔘" * 51),
        r"runs/0001.json: run.id: unusable id '𝔘+'; expected at most 200 of A-Z a-z 0-9",
    ),
    "too long": (put("run.id", "a" * 201), "unusable id 'a+'"),
    "a command": (put("run.id", "a;$(sh b)"), r"unusable id 'a;\$\(sh b"),
    "an option": (put("run.id", "--help"), "unusable id '--help'"),
    "whichever is the newest": (put("run.id", "latest"), "unusable id 'latest'"),
    "another than the manifest says": (
        manifest_edit(lambda m: m["runs"][0].update(id="three")),
        "not .* of manifest.json",
    ),
    "a rate in words": (
        put("treatments.0.levels", {"server": "a", "clients": 1, "rate": "fast"}),
        "rate is 'fast'",
    ),
    "a rate below none": (
        put("treatments.0.levels", {"server": "a", "clients": 1, "rate": -1}),
        "rate is -1",
    ),
    "same run twice": (put("run.id", "two"), "run two occurs 2 times"),
    "trial of no treatment": (put("trials.0.treatment_id", "none"), "unknown treatment none"),
    "attempt of no trial": (put("attempts.0.trial_id", "none"), "unknown trial none"),
    "trial twice": (run_edit(lambda r: twice(r, "trials")), "trial .* occurs 2 times"),
    "attempt twice": (run_edit(lambda r: twice(r, "attempts")), "attempt .* occurs 2 times"),
    "finished twice": (
        run_edit(lambda r: r["attempts"].append(r["attempts"][0] | {"number": 2})),
        "finished attempt of trial .* occurs 2 times",
    ),
    "other histograms": (
        put("attempts.0.artefacts.0.kind", "histograms"),
        "not a valid histograms file",
    ),
    "deeply nested": (put("run.host.facts.x", nested(70)), "nested more than 64 levels"),
    "nested as deeply as nobody reads": (
        lambda c: raw_run(c, b'"seed":7', b'"x":' + b"[" * 50_000 + b"]" * 50_000 + b',"seed":7'),
        "nested more than 64 levels",
    ),
    "not a number": (
        put("attempts.0.measurements.0.value", float("nan")),
        "NaN is not a valid JSON number",
    ),
    "infinite": (lambda c: raw_run(c, b'"value":3.5', b'"value":1e999'), "a number is beyond"),
    "larger than a database's integers": (put("run.seed", 10**30), "a whole number is beyond"),
    "half of a surrogate pair": (put("run.title", "\ud800"), "surrogate"),
    "a number as text": (put("run.seed", "7"), "run.seed"),
    "compares nothing": (run_edit(lambda r: r["run"]["spec"].pop("compare")), "spec.compare"),
    "compares no factor": (
        put("run.spec.compare.factor", "x"),
        "compare.factor 'x' is not a factor",
    ),
    "figures published elsewhere": (put("run.spec.published", "../../x"), "spec.published"),
    "a factor without a level": (put("treatments.0.levels", {}), "has no level of server"),
    "millions of values": (
        lambda c: raw_run(c, b'"seed":7', b'"x":[' + b"[]," * 4_100_000 + b'[]],"seed":7'),
        "more than 8,000,000 values",
    ),
    "packed to a thousandth": (
        lambda c: c.update({artefact_name(c): bytes(300 << 20)}),
        "more than 200 times its packed size",
    ),
    "measured twice": (
        run_edit(lambda r: twice(r["attempts"][0], "measurements")),
        "measurement .* occurs 2 times",
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
        begin(store, "mine")
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
    refused_unchanged(exported, tmp_path, "truncated")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_changed_bit_is_refused_or_changes_nothing(
    place: float, bit: int, exported: Path, tmp_path: Path
) -> None:
    content = bytearray(exported.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    (tmp_path / "changed.zip").write_bytes(content)
    with module.reading(exported) as found:
        runs = [found.run(entry) for entry in found.runs]
    with (
        contextlib.suppress(UserError),
        Artefacts(tmp_path / "files").staging() as staged,
        module.reading(tmp_path / "changed.zip") as changed,
    ):
        # The flipped bit was in a date or another unread field.
        assert [changed.run(entry) for entry in changed.runs] == runs
        changed.stage(staged)
        assert len(list(staged.directory.iterdir())) == 3


def with_end(path: Path, signature: bytes, directory_bytes: int) -> Path:
    """Return a file with the end of an archive whose two end records disagree.

    Its 64-bit record, with a right or wrong signature, gives its directory 1 byte, and its ordinary
    record gives another size.
    """
    record = struct.pack("<4sQ2H2L4Q", signature, 44, 45, 45, 0, 0, 1, 1, 1, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, directory_bytes, 0, 0)
    path.write_bytes(bytes(100) + record + locator + end)
    return path


def test_a_record_that_readers_pass_over_hides_no_large_directory(tmp_path: Path) -> None:
    path = with_end(tmp_path / "runs.zip", b"XXXX", 1 << 30)
    with pytest.raises(UserError, match="contains more than"), module.opened(path):
        pass


def test_a_directory_that_lies_elsewhere_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a.json", "{}" * 100)
    content = bytearray(path.read_bytes())
    (begin,) = struct.unpack("<L", content[-6:-2])
    content[-6:-2] = struct.pack("<L", begin + 60)  # members then begin before the file
    path.write_bytes(content)
    with pytest.raises(UserError, match="damaged"), module.opened(path) as opened:
        opened.read("a.json", 1_000)


HISTORY = "history.json"


@pytest.fixture
def exported_history(store: Store, tmp_path: Path) -> Path:
    """Export a run with a point and a change to a file."""
    begin(store, "run-1")
    store.histories.record(part(point(1, 0.9)))
    store.histories.keep([change(1)])
    store.export_runs(["run-1"], tmp_path / "runs.zip")
    return tmp_path / "runs.zip"


def edited(path: Path, edit: Callable[[Any], object], *, keep_hash: bool = False) -> None:
    """Change an exported file's histories, and their hash in the manifest with it."""
    content = members(path)
    history = json.loads(content[HISTORY])
    edit(history)
    content[HISTORY] = json.dumps(history).encode()
    if not keep_hash:
        digest = sha256(content[HISTORY]).hexdigest()
        edit_manifest(content, lambda manifest: manifest["history"].update(sha256=digest))
    write(path, content)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda raw: raw["points"][0][1].update(run_id="x"),
            "refers to an unknown series, state or run",
        ),
        (lambda raw: raw["points"].append(raw["points"][0]), "occurs 2 times"),
        (lambda raw: raw["points"][0][1].update(ratio=-1), "a ratio is not from"),
        (lambda raw: raw["series"].clear(), "refers to an unknown series, state or run"),
        (lambda raw: raw["changes"][0].update(label="x"), "refers to an unknown point"),
        (lambda raw: raw["changes"][0].update(state="rumour"), "changes.0.state"),
        (lambda raw: raw["changes"][0].update(id="a; sh b"), "not a valid id of a change"),
    ],
)
def test_histories_that_contradict_themselves_are_refused(
    edit: Callable[[Any], object], said: str, exported_history: Path, tmp_path: Path
) -> None:
    edited(exported_history, edit)
    with Store.open(tmp_path / "other.sqlite") as other:
        with pytest.raises(UserError, match=said):
            other.import_file(exported_history)
        assert other.list_runs() == []
        assert other.histories.series() == []


def test_histories_that_were_changed_are_refused(exported_history: Path, tmp_path: Path) -> None:
    edited(exported_history, lambda raw: raw["series"][0].update(title="x"), keep_hash=True)
    with (
        Store.open(tmp_path / "other.sqlite") as other,
        pytest.raises(UserError, match=r"history\.json was changed"),
    ):
        other.import_file(exported_history)
