"""Test `millrace snapshots` as a user calls it."""

import json
from pathlib import Path

import pytest

from millrace.servers.snapshots import Snapshot, SnapshotKey, data_files, manifest, repository
from millrace.servers.snapshots.kept_data import KeptData
from tests.support.called import millrace
from tests.support.small_snapshots import parts


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_SNAPSHOTS", str(tmp_path / "kept"))


def call(*arguments: str, status: int = 0) -> tuple[str, str]:
    done = millrace("snapshots", *arguments, status=status)
    return done.stdout, done.stderr


def kept(seed: int) -> Snapshot:
    options = [("innodb_page_size", "4k")]
    key = SnapshotKey("mysql-5.7.22", parts(options, seed=seed, tables=["t"]))
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
            digests=data_files.digests(data, ["ibdata1"]),
        )
        manifest.write(made)
        return repository.publish(draft, key)


def kept_for_a_trial(work: Path, monkeypatch: pytest.MonkeyPatch) -> KeptData:
    """Return what a stopped trial left."""
    monkeypatch.setenv("MILLRACE_WORK", str(work))
    kept = KeptData.of("run-1/trial")
    kept.data.mkdir(parents=True)
    (kept.data / "ibdata1").write_bytes(b"x" * 9000)
    password = kept.directory / "password"
    password.write_text("hidden")
    (kept.directory / "trial").write_text(kept.trial)
    for path in (kept.directory, password):
        path.chmod(0o700)
    return kept


def test_data_kept_for_a_trial_is_named_and_removed_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = kept_for_a_trial(tmp_path / "work", monkeypatch)
    _, err = call("list")
    assert (
        f"kept for trial run-1/trial, which will resume with it: {kept.directory.name} (12.3 kB)"
        in err
    )
    assert "hidden" not in err
    _, err = call("remove", kept.directory.name)
    assert f"removed {kept.directory.name}" in err
    assert not kept.directory.parent.exists()


def test_what_is_kept_is_listed() -> None:
    out, err = call("list")
    assert out == ""
    assert "no snapshots" in err
    one, other = kept(1), kept(2)
    out, err = call("list")
    for each, seed in ((one, 1), (other, 2)):
        line = next(line for line in out.splitlines() if line.startswith(each.name))
        assert f"seed={seed}, innodb_page_size=4k" in line
        assert "12.2 s" in line
    assert "hidden" not in out + err
    documents = json.loads(call("list", "--json")[0])
    assert {each["name"] for each in documents} == {one.name, other.name}
    assert documents[0]["facts"] == {"rows": 5}
    assert "hidden" not in json.dumps(documents)


def test_a_damaged_one_is_listed_as_such_and_can_be_removed() -> None:
    one, other = kept(1), kept(2)
    (one.data_dir / "ibdata1").write_bytes(b"short")
    (other.directory / manifest.FILE).write_text("{")
    out, _ = call("list")
    assert "damaged: ibdata1 was changed" in out
    assert "damaged: its manifest cannot be read" in out
    call("remove", one.name, other.name)
    assert call("list")[0] == ""


def test_snapshots_are_removed_by_name_or_all() -> None:
    one, other, third = kept(1), kept(2), kept(3)
    assert f"removed {one.name}" in call("remove", one.name)[1]
    _, err = call("remove", one.name, status=2)
    assert "unknown snapshot" in err
    for wrong in ((), ("--all", other.name)):
        call("remove", *wrong, status=2)
    _, err = call("remove", "--all")
    assert other.name in err
    assert third.name in err
    assert call("list")[0] == ""


def test_a_limit_that_is_not_a_size_is_refused_though_there_is_no_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MILLRACE_SNAPSHOTS_LIMIT", "lots")
    _, err = call("list", status=2)
    assert "MILLRACE_SNAPSHOTS_LIMIT" in err
    assert "use a size such as 50G" in err
