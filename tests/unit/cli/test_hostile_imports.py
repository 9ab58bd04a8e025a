"""Test exports of others that were changed at random, or whose counts are meant to do harm.

Each is imported and every command shows it, or it is refused with exit status 2 and nothing
remains.
"""

import hashlib
import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.analysis.history.recording import points_of
from millrace.report.run.formats import FORMATS
from millrace.store.store import Store
from tests.support.called import call, millrace
from tests.support.explained import study_run
from tests.support.history_points import run_of
from tests.support.observed_store import keep

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
    keep(run_of("recorded"), place / "results.sqlite")
    with Store.open(place / "results.sqlite") as store:
        found = store.load_run("recorded")
        part = points_of(found, reference=None, label="v1", at_utc="2026-01-01T00:00:00Z").part
        store.histories.record(part)
    return export(place)


def export(place: Path) -> Members:
    """Return the files in an export of all runs of the store in ``place``."""
    with Store.open(place / "results.sqlite") as store:
        store.export_runs([run.id for run in store.list_runs()], place / "runs.zip")
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


CHAIN = list(range(-1, 400))
ESCAPE = "\x1b]52;c;eA==\x07\u202egnp.so"

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Members:
    place = tmp_path_factory.mktemp("exported")
    keep(study_run(profiled=0, counted=True), place / "results.sqlite")
    return export(place)


def changed(members: Members, change: Change) -> Members:
    """Change the counts of an export, and all hashes that depend on them."""
    texts = {name: content.decode() for name, content in members.items()}
    for name in [each for each in texts if each.startswith("artefacts/")]:
        document = json.loads(texts[name])
        if isinstance(document, dict) and "instructions" in document:
            change(document["instructions"])
            content = json.dumps(document)
            old, new = name.partition("/")[2], hashlib.sha256(content.encode()).hexdigest()
            size = len(texts.pop(name).encode())
            texts = {each.replace(old, new): text for each, text in texts.items()}
            for each in ("runs/0001.json", "manifest.json"):
                texts[each] = resized(texts[each].replace(old, new), new, size, len(content))
            texts[f"artefacts/{new}"] = content
    manifest = json.loads(texts["manifest.json"])
    manifest["runs"][0]["sha256"] = hashlib.sha256(texts["runs/0001.json"].encode()).hexdigest()
    texts["manifest.json"] = json.dumps(manifest)
    return {name: text.encode() for name, text in texts.items()}


def resized(text: str, sha256: str, old: int, new: int) -> str:
    """Replace the size of a file in a document."""

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("sha256") == sha256 and value.get("size_bytes") == old:
                value["size_bytes"] = new
            value = list(value.values())
        for each in value if isinstance(value, list) else ():
            walk(each)

    document = json.loads(text)
    walk(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    "change",
    [
        lambda counts: counts.update(names=[ESCAPE] * len(counts["names"]), files={ESCAPE: ESCAPE}),
        lambda counts: counts["program"].update(compilers=[f"GCC {ESCAPE} 4.1", ESCAPE]),
        lambda counts: counts.update(own=[1e19] * len(counts["own"])),
        lambda counts: counts["repetitions"][0].update(instructions=-5),
        lambda counts: counts["repetitions"][0].update(instructions=1e19, background=1e19),
        lambda counts: counts.update(transactions=2**40, valgrind=ESCAPE),
    ],
    ids=["names", "compilers", "own", "negative", "large", "transactions"],
)
def test_odd_counts_are_shown_without_hidden_text(
    counted: Members, tmp_path: Path, change: Change
) -> None:
    imported_or_refused(changed(counted, change), tmp_path)
    with Store.open(tmp_path / "results.sqlite", read_only=True) as store:
        assert len(store.list_runs()) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda counts: counts.update(own=[float("nan")] * len(counts["own"])),
            "NaN is not a valid JSON number",
        ),
        (lambda counts: counts.update(own=[1e300] * len(counts["own"])), "beyond ±1e+20"),
        (
            lambda counts: counts.update(
                callers=CHAIN, functions=[0] * len(CHAIN), own=[1.0] * len(CHAIN)
            ),
            "deeper, or more, than any server's",
        ),
        (lambda counts: counts.update(callers=[7] * len(counts["callers"])), "unknown caller"),
        (lambda counts: counts.update(names=[]), "unknown caller or function"),
        (lambda counts: counts.update(files=json.loads("[" * 80 + "]" * 80)), "levels deep"),
    ],
    ids=["nan", "huge", "deep calls", "no tree", "no names", "nested"],
)
def test_impossible_counts_are_refused_and_nothing_is_kept(
    counted: Members, tmp_path: Path, change: Change, said: str
) -> None:
    file = write(tmp_path / "runs.zip", changed(counted, change))
    done = millrace("results", "import", file, "--store", tmp_path / "results.sqlite", status=2)
    assert said in " ".join(done.stderr.split())
    with Store.open(tmp_path / "results.sqlite") as store:
        assert store.list_runs() == []
