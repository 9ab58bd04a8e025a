"""Test `millrace snapshots` as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.servers.snapshots import Snapshot, SnapshotKey, digests, manifest, repository

Environment = dict[str, str]


@pytest.fixture
def environment(
    tmp_path: Path, child_environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> Environment:
    monkeypatch.setenv("MILLRACE_SNAPSHOTS", str(tmp_path / "kept"))
    return {**child_environment, "MILLRACE_SNAPSHOTS": str(tmp_path / "kept")}


def call(environment: Environment, *arguments: str, status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", "snapshots", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def kept(seed: int) -> Snapshot:
    parts = {"data": {"seed": seed, "tables": ["t"]}, "options": [["innodb_page_size", "4k"]]}
    key = SnapshotKey("mysql-5.7.22", parts)
    with repository.draft(key) as draft:
        data = draft / manifest.DATA
        data.mkdir()
        (data / "ibdata1").write_bytes(b"x" * 9000)
        total, allocated = manifest.usage(data)
        made = Snapshot(
            key=key,
            directory=draft,
            password="hidden",
            facts={"rows": 5},
            made_s=12.25,
            made_utc="2026-11-20T15:00:00Z",
            bytes=total,
            allocated_bytes=allocated,
            files=manifest.list_files(data),
            digests=digests.digests(data, ["ibdata1"]),
        )
        manifest.write(made)
        return repository.publish(draft, key)


def test_what_is_kept_is_listed(environment: Environment) -> None:
    out, err = call(environment, "list")
    assert out == ""
    assert "holds no snapshots" in err
    one, other = kept(1), kept(2)
    out, err = call(environment, "list")
    for each, seed in ((one, 1), (other, 2)):
        line = next(line for line in out.splitlines() if line.startswith(each.name))
        assert f"seed={seed}, innodb_page_size=4k" in line
        assert "12.2 s" in line
    assert "hidden" not in out + err
    documents = json.loads(call(environment, "list", "--json")[0])
    assert {each["name"] for each in documents} == {one.name, other.name}
    assert documents[0]["facts"] == {"rows": 5}
    assert "hidden" not in json.dumps(documents)


def test_a_damaged_one_is_listed_as_such_and_can_be_removed(environment: Environment) -> None:
    one, other = kept(1), kept(2)
    (one.data_dir / "ibdata1").write_bytes(b"short")
    (other.directory / manifest.FILE).write_text("{")
    out, _ = call(environment, "list")
    assert "damaged: ibdata1 was changed" in out
    assert "damaged: its manifest cannot be read" in out
    call(environment, "remove", one.name, other.name)
    assert call(environment, "list")[0] == ""


def test_snapshots_are_removed_by_name_or_all(environment: Environment) -> None:
    one, other, third = kept(1), kept(2), kept(3)
    assert f"removed {one.name}" in call(environment, "remove", one.name)[1]
    _, err = call(environment, "remove", one.name, status=2)
    assert "there is no snapshot" in err
    for wrong in ((), ("--all", other.name)):
        call(environment, "remove", *wrong, status=2)
    _, err = call(environment, "remove", "--all")
    assert other.name in err
    assert third.name in err
    assert call(environment, "list")[0] == ""
