"""Test the statement activity as its readers find it."""

import struct
from pathlib import Path

import pytest

from millrace.loadgen.statement_activity import Client, StatementActivity


def written(*slots: tuple[int, int, int], names: bytes = b'["a","ROLLBACK"]') -> bytes:
    """Write statement activity with slots of kind, statement and socket."""
    header = struct.pack("=8sIII", b"millrace", 1, len(slots), len(names)).ljust(64, b"\0")
    return header + b"".join(struct.pack("=IIQ", *slot).ljust(64, b"\0") for slot in slots) + names


def test_clients_and_statements(tmp_path: Path) -> None:
    path = tmp_path / "activity"
    path.write_bytes(written((1, 0, 1 << 40), (2, 1, 40_000)))
    found = StatementActivity(path)
    assert found.clients() == (Client(0, "inode", 1 << 40), Client(1, "port", 40_000))
    assert found.statements() == ("a",)


def test_what_clients_have_under_way(tmp_path: Path) -> None:
    path = tmp_path / "activity"
    names = b'["a","b","ROLLBACK"]'
    slots = [(1, 0, 7), (1, 2, 8), (2, 3, 9), (2, 4, 10)]
    path.write_bytes(written(*slots, names=names))
    with StatementActivity(path).mapped() as shown:
        assert [shown.statement_of(slot) for slot in range(4)] == [None, "b", None, None]
        with path.open("r+b") as file:
            file.write(written((1, 1, 7)))
        assert shown.statement_of(0) == "a"


@pytest.mark.parametrize(
    "text",
    [
        written((1, 0, 7))[:-1],
        written((1, 0, 7))[:100],
        b"",
        b"\0" * 64,
        written().replace(b"millrace\1", b"millrace\2"),
    ],
)
def test_a_board_that_nobody_has_filled(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "activity"
    path.write_bytes(text)
    assert StatementActivity(path).clients() == ()
    assert StatementActivity(path).statements() == ()


def test_one_that_is_made_is_gone_after() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    with StatementActivity.create() as made:
        assert made.clients() == ()
        made.path.write_bytes(written((2, 0, 7)))
        assert made.clients() == (Client(0, "port", 7),)
    assert not made.path.exists()
    assert set(Path("/proc/self/fd").iterdir()) <= before
