"""Test the client that fills a disk: what it writes, what it keeps a list of, what it compares."""

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import DatabaseError
from millrace.trial import full_disk

ROWS = 400  # more than a transaction has


class FakeSession:
    """A session whose ``refuse`` may raise an error for a statement; it keeps the rows."""

    def __init__(self, table: dict[int, bytes], refuse: Callable[[str], None]) -> None:
        self.is_open = True
        self._table = table
        self._refuse = refuse

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        word = sql.split(maxsplit=1)[0]
        try:
            self._refuse(word)
        except DatabaseError as error:
            self.is_open = error.kind != "lost"
            raise
        match word:
            case "SELECT":
                rows = sorted(each for each in self._table.items() if each[0] > values[0])
                return list(rows[:7])
            case "INSERT" | "UPDATE":
                assert sql.count("%s") == len(values)
                n_pairs = 2 * full_disk.ROWS_PER_TRANSACTION
                self._table |= dict(zip(values[:n_pairs:2], values[1:n_pairs:2], strict=True))
                assert values[n_pairs:] in ((), values[:n_pairs:2])
        return []

    def close(self) -> None:
        self.is_open = False


def filled(
    filled_by: full_disk.FilledBy,
    refuse: Callable[[str], None],
    until: Callable[[full_disk.FillingClient], bool],
) -> tuple[full_disk.FillingClient, dict[int, bytes]]:
    """Return a client that worked until a condition held, and the table that it left."""
    table: dict[int, bytes] = {}
    client = full_disk.FillingClient(lambda: FakeSession(table, refuse), filled_by, ROWS, seed=1)  # type: ignore[arg-type, return-value]
    client.start()
    deadline_s = time.monotonic() + 60
    while not until(client) and time.monotonic() < deadline_s:
        time.sleep(0.001)
    assert client.close(60)
    return client, table


@pytest.mark.parametrize("filled_by", ["inserts", "growing_pages", "binary_log"])
def test_all_payloads_have_one_length_and_only_those_of_the_log_can_be_compressed(
    filled_by: full_disk.FilledBy,
) -> None:
    made = list(islice(full_disk.transactions(filled_by, ROWS, seed=1), 5))
    assert {len(rows) for rows in made} == {full_disk.ROWS_PER_TRANSACTION}
    payloads = [payload for rows in made for _, payload in rows]
    assert {len(each) for each in payloads} == {full_disk.PAYLOAD_BYTES}
    assert len(set(payloads)) == len(payloads)
    packed = len(zlib.compress(payloads[0]))
    assert (packed < full_disk.PAYLOAD_BYTES / 10) == (filled_by == "binary_log")
    numbers = [number for rows in made for number, _ in rows]
    if filled_by == "inserts":
        assert numbers == list(range(ROWS + 1, ROWS + 1 + len(numbers)))
    else:
        assert set(numbers) == set(range(1, ROWS + 1))


@pytest.mark.parametrize("filled_by", ["inserts", "growing_pages"])
def test_what_was_committed_is_found_again(filled_by: full_disk.FilledBy) -> None:
    client, table = filled(filled_by, lambda _: None, lambda client: client.commits >= 3)
    assert client.first_error is None
    assert client.rows_written == client.commits * full_disk.ROWS_PER_TRANSACTION
    assert len(table) == (client.rows_written if filled_by == "inserts" else ROWS)
    session: Any = FakeSession(table, lambda _: None)
    assert full_disk.compared(full_disk.read_rows(session), client.listed) == (0, 0, 0)
    assert client.longest_wait_s > 0


def test_a_refused_transaction_is_no_loss_and_the_first_error_is_kept() -> None:
    errors = iter(["is full\n\x1b[31m" * 100, "another"])

    def refuse(word: str) -> None:
        if word == "INSERT" and (text := next(errors, None)) is not None:
            raise DatabaseError(text, kind="refused", code="1114")

    client, table = filled("inserts", refuse, lambda client: client.commits >= 2)
    assert client.first_error is not None
    assert client.first_error.code == "1114"
    assert not client.first_error.is_lost
    assert client.first_error.text.startswith(r"is full\n\x1b")
    assert len(client.first_error.text) == 200
    assert len(client.listed.refused) == 2 * full_disk.ROWS_PER_TRANSACTION
    session: Any = FakeSession(table, lambda _: None)
    assert full_disk.compared(full_disk.read_rows(session), client.listed) == (0, 0, 0)


def test_a_transaction_without_an_answer_may_be_there_or_not() -> None:
    lost = iter([True])

    def refuse(word: str) -> None:
        if word == "INSERT" and next(lost, False):
            raise DatabaseError("gone away", kind="lost", code="2013")

    client, _ = filled("inserts", refuse, lambda client: client.commits >= 1)
    assert client.first_error is not None
    assert client.first_error.is_lost
    assert len(client.listed.unanswered) == full_disk.ROWS_PER_TRANSACTION
    assert not client.listed.refused


def test_client_reconnects_after_a_lost_server() -> None:
    tries = iter(range(2))

    def connect() -> Any:
        if next(tries, None) is not None:
            raise DatabaseError("nobody answers", kind="unreachable", code="2003")
        return FakeSession({}, lambda _: None)

    client = full_disk.FillingClient(connect, "inserts", ROWS, seed=1)
    client.start()
    while not client.commits:
        time.sleep(0.001)
    assert client.close(60)
    assert client.first_error is not None
    assert client.first_error.is_lost
    assert not client.listed.unanswered


def test_client_cannot_be_closed_while_it_waits() -> None:
    answer = threading.Event()
    closed = []

    def refuse(word: str) -> None:
        if word == "INSERT":
            answer.wait()

    table: dict[int, bytes] = {}
    client = full_disk.FillingClient(lambda: FakeSession(table, refuse), "inserts", ROWS, seed=1)  # type: ignore[arg-type, return-value]
    client.start()
    while client.waiting_s < 0.05:
        time.sleep(0.001)
    closed.append(client.close(0.01))
    answer.set()
    closed.append(client.close(60))
    assert closed == [False, True]
    assert client.longest_wait_s >= 0.05


def test_a_defect_of_the_client_is_raised() -> None:
    def connect() -> Any:
        raise LookupError("ours")

    client = full_disk.FillingClient(connect, "inserts", ROWS, seed=1)
    client.start()
    with pytest.raises(LookupError, match="ours"):
        client.close(60)


def test_rows_that_differ_from_the_list_are_classified() -> None:
    listed = full_disk.Acknowledged(
        committed={1: 10, 2: 20, 3: 30, 4: 40},
        refused={2: {21}, 6: {60}},
        unanswered={3: {31}, 7: {70}},
    )
    assert full_disk.compared([(1, 10), (2, 20), (3, 30), (4, 40)], listed) == (0, 0, 0)
    assert full_disk.compared([(1, 11), (2, 21), (3, 31)], listed) == (2, 1, 1)
    assert full_disk.compared([*listed.committed.items(), (6, 60), (7, 70)], listed) == (0, 1, 1)
    assert full_disk.compared([*listed.committed.items(), (8, 80)], listed) == (1, 0, 0)


contents = st.dictionaries(st.integers(1, 20), st.integers(0, 3))


@given(committed=contents, lost=st.sets(st.integers(1, 20)), changed=st.sets(st.integers(1, 20)))
def test_every_row_that_is_missing_or_changed_is_lost(
    committed: dict[int, int], lost: set[int], changed: set[int]
) -> None:
    def found() -> Iterator[tuple[int, int]]:
        for number, crc in committed.items():
            if number not in lost:
                yield number, crc + 4 if number in changed else crc

    n_lost = len(committed.keys() & (lost | changed))
    assert full_disk.compared(found(), full_disk.Acknowledged(committed)) == (n_lost, 0, 0)
