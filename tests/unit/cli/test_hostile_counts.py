"""Test exports of others whose counted instructions are meant to do harm."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millrace.store.store import Store
from tests.support.explained import study_run
from tests.unit.cli.called import millrace
from tests.unit.cli.observed_store import keep
from tests.unit.cli.test_hostile_imports import Members, imported_or_refused, write

CHAIN = list(range(-1, 400))
ESCAPE = "\x1b]52;c;eA==\x07\u202egnp.so"

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Members:
    place = tmp_path_factory.mktemp("exported")
    keep(study_run(profiled=0, counted=True), place / "results.sqlite")
    with Store.open(place / "results.sqlite") as store:
        store.export_runs([run.id for run in store.list_runs()], place / "runs.zip")
    with zipfile.ZipFile(place / "runs.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


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
    exported: Members, tmp_path: Path, change: Change
) -> None:
    imported_or_refused(changed(exported, change), tmp_path)
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
    exported: Members, tmp_path: Path, change: Change, said: str
) -> None:
    file = write(tmp_path / "runs.zip", changed(exported, change))
    done = millrace("results", "import", file, "--store", tmp_path / "results.sqlite")
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    with Store.open(tmp_path / "results.sqlite") as store:
        assert store.list_runs() == []
