"""Test restored servers with odd answers, and data directories of more files than one counts."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from millrace import databases
from millrace.databases.table_checks import KeptTable, Reading
from millrace.errors import DatabaseError, TrialFailed
from millrace.servers.instances import ownership
from millrace.servers.snapshots import Snapshot, SnapshotKey, manifest, verify_tables
from millrace.trial.sizes import sizes
from tests.support.deep_directories import deep
from tests.support.hostile_mysql import DECIMAL, TEXT, Answer, answers, rows, says, serving
from tests.support.small_snapshots import parts

COUNT = "SELECT COUNT(*), SUM(c) FROM t"
NAME = "d.t\x1b]52;c;eA\x07"


def snapshot() -> Snapshot:
    table = KeptTable(NAME, Reading((COUNT,), 7, 9), None)
    return Snapshot(
        key=SnapshotKey("small", parts()),
        directory=Path("/nowhere"),
        password="",
        facts={},
        made_s=1,
        made_utc="2026-11-20T15:00:00Z",
        bytes=0,
        allocated_bytes=0,
        files=(),
        digests={},
        tables=(table,),
    )


def always(*found: list[bytes | None], kind: int = TEXT) -> Answer:
    """Answer each statement with the same rows."""
    return says(*rows([f"c{at}" for at in range(len(found[0]))], *found, kind=kind))


ODD = {
    "others": (always([b"6", b"9"]), "found 6 rows, expected 7"),
    "other sums": (always([b"7", b"8"]), "found the checksum 8, expected 9"),
    "words": (always([b"7", b"x" * 100_000]), "expected integers"),
    "not a number": (always([b"7", b"NaN"], kind=DECIMAL), "expected integers"),
    "too many digits": (always([b"7", b"9" * 5_000]), "expected integers"),
    "two rows": (always([b"7", b"9"], [b"7", b"9"]), "expected 1 row of 2 columns, got 2 of 2"),
    "one column": (always([b"7"]), "expected 1 row of 2 columns, got 1 of 1"),
    "an error": (says(b"\xff\x51\x04#HY000no \x1b[2J"), "cannot be read: no "),
}


@pytest.mark.parametrize("odd", ODD)
def test_other_tables_fail_the_trial(odd: str) -> None:
    answer, words = ODD[odd]
    with serving(answer) as server, pytest.raises(TrialFailed, match=words) as failed:
        verify_tables(server.attached, snapshot(), whole=True)
    message = failed.value.message
    assert "theirs: table d.t" in message
    assert "\x1b" not in message
    assert len(message) < 500
    assert "millrace snapshots remove small-" in (failed.value.hint or "")


@pytest.mark.parametrize(
    "answer",
    [
        always([b"a", b"b"]),
        always([b"a", None, b"int", None]),
        always([b"a", b"NO", b"int", b"x' OR"]),
        always([b"\xff", b"\xfe"]),
        says(b"\x00\x00\x00\x02\x00\x00\x00"),
        answers(b"1", n_columns=2),
    ],
)
def test_tables_that_cannot_be_recorded_end_with_an_error(answer: Answer) -> None:
    with serving(answer) as server:
        instance = server.attached
        try:
            with contextlib.closing(instance.connect(limit_s=20)) as session:
                recorded = instance.family.snapshots.record_tables(session)
        except (ValueError, DatabaseError):
            return
    assert recorded == ()


def test_lost_connection_does_not_condemn_the_snapshot() -> None:
    def hangs_up(sql: str) -> Iterable[bytes]:
        if sql == COUNT:
            raise EOFError
        return ()

    with (
        serving(hangs_up) as server,
        pytest.raises(TrialFailed, match="cannot read its tables: ") as failed,
    ):
        verify_tables(server.attached, snapshot(), whole=True)
    assert failed.value.hint is None


LEVELS = 1_000


def test_files_and_directories_are_counted_up_to_a_bound(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.ibd").write_bytes(b"rows")
        (tmp_path / f"db{number}").mkdir()
    assert len(list(manifest.walk(tmp_path, most=20))) == 10
    with pytest.raises(TrialFailed, match=r"has more than 19 files and directories"):
        list(manifest.walk(tmp_path, most=19))


def test_the_sizes_of_endless_levels_are_a_clear_failure(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with deep(data, LEVELS), pytest.raises(TrialFailed) as failed:
        sizes(data, databases.get("mysql").snapshots, 1)
    assert failed.value.message == (
        f"the data directory {data} has more than 100 levels of directories"
    )


def test_the_sizes_of_endless_names_are_a_clear_failure(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with (
        deep(data, 20, "d" * 250),
        pytest.raises(TrialFailed, match="names longer than the kernel's limit") as failed,
    ):
        sizes(data, databases.get("mysql").snapshots, 1)
    assert len(failed.value.message) < 300


def test_many_files_and_levels_are_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "/".join(["d"] * 200)).mkdir(parents=True)
    for number in range(300):
        (data / f"{number}").touch()
        (data / f"d{number}").mkdir()
    ownership.remove_tree(data)
    assert not data.exists()
