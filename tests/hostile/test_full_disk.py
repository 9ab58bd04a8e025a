"""Test that a server whose disk is filled can neither mislead root nor end a run."""

from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace.databases.client import Session
from millrace.errors import DatabaseError, TrialFailed
from millrace.host.limited_filesystem import LimitedFilesystem
from millrace.trial.full_disk import FullDisk, read_rows

_ODD: tuple[Any, ...] = (
    (), (1,), (1, b"", 3), (None, b""), ("x", b""), ("9" * 5000, b""), (1, None), (1, "text"),
    (0, b""), (-1, b""),
)  # fmt: skip


class Server:
    """A session that gives rows, whatever it is asked for."""

    def __init__(self, *rows: Any) -> None:
        self.rows = list(rows)

    def query(self, _sql: str, *_values: object) -> list[Any]:
        return self.rows

    def close(self) -> None:
        pass


@pytest.mark.parametrize("odd", _ODD)
def test_odd_rows_are_a_failure_of_the_server(odd: Any) -> None:
    with pytest.raises(DatabaseError, match="the server's rows are"):
        list(islice(read_rows(cast(Session, Server(odd))), 10))


def test_rows_that_come_again_and_again_are_no_endless_list() -> None:
    with pytest.raises(DatabaseError, match="not in the order"):
        list(islice(read_rows(cast(Session, Server((1, b"a"), (2, b"b")))), 10))


def test_no_more_rows_are_listed_than_were_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = SimpleNamespace(spec=SimpleNamespace(workload=SimpleNamespace(rows=3)))
    disk = cast(Any, SimpleNamespace(trial=trial, _session=lambda _limit_s: Server()))
    endless = ((number, 0) for number in count(1))
    monkeypatch.setattr("millrace.trial.full_disk.read_rows", lambda _session: endless)
    with pytest.raises(TrialFailed, match="more rows than the 3"):
        FullDisk._list_rows(disk, 10)
    assert next(endless) == (5, 0)


def test_a_link_in_the_place_of_the_ballast_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    disk = LimitedFilesystem(tmp_path)
    (tmp_path / ".millrace-ballast").symlink_to(victim)
    with pytest.raises(FileExistsError):
        disk.take_all_but(disk.free_bytes - (1 << 20))
    disk.give_back()
    assert victim.read_text() == "kept"
