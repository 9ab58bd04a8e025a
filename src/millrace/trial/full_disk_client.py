"""Write until a disk is full and afterwards, and keep a list of what the server acknowledged.

The list is the client's own: the id and the CRC-32 of each row whose transaction the server has
committed, refused, or not answered. A transaction is one statement.
"""

import random
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Literal

from millrace.databases.client import Session
from millrace.errors import DatabaseError
from millrace.shown_text import shown_line

FilledBy = Literal["inserts", "growing_pages", "binary_log"]

PAYLOAD_BYTES = 1000
ROWS_PER_TRANSACTION = 256  # a commit takes tens of milliseconds on a slow disk; 0.5 MB at most
_PAUSE_S = 0.1  # after an error
_LONGEST_ERROR = 200  # characters

# Of the table that the workload calls so (workloads.definition.FILLED).
_READ = "SELECT id, payload FROM filled WHERE id > %s ORDER BY id LIMIT 5000"
READ_ONE = "SELECT id FROM filled WHERE id = 1"

Rows = tuple[tuple[int, bytes], ...]
"""The rows of a transaction: id and payload."""


@dataclass(frozen=True)
class FirstError:
    """The first error that the client met; ``is_lost``: it lost the session, or got none."""

    at_s: float  # of the monotonic clock
    code: str | None
    text: str  # on one line
    is_lost: bool


@dataclass
class Acknowledged:
    """The CRC-32 of rows by id: the committed ones, and the other contents that they may have."""

    committed: dict[int, int] = field(default_factory=dict)
    refused: dict[int, set[int]] = field(default_factory=dict)
    unanswered: dict[int, set[int]] = field(default_factory=dict)

    def commit(self, rows: Rows) -> None:
        """Note that the server has acknowledged a transaction."""
        for number, payload in rows:
            self.committed[number] = zlib.crc32(payload)
            self.refused.pop(number, None)
            self.unanswered.pop(number, None)

    def doubt(self, rows: Rows, *, is_lost: bool) -> None:
        """Note that the server has refused a transaction, or has not answered it."""
        doubtful = self.unanswered if is_lost else self.refused
        for number, payload in rows:
            doubtful.setdefault(number, set()).add(zlib.crc32(payload))


def compared(found: Iterable[tuple[int, int]], listed: Acknowledged) -> tuple[int, int, int]:
    """Compare the rows that the server has (id and CRC-32) with the list.

    Return the numbers of lost, refused and unanswered rows: see ``FullDiskFact``.
    """
    lost = refused = unanswered = 0
    missing = set(listed.committed)
    for number, crc in found:
        missing.discard(number)
        if listed.committed.get(number) == crc:
            continue
        if crc in listed.unanswered.get(number, ()):
            unanswered += 1
        elif crc in listed.refused.get(number, ()):
            refused += 1
        else:
            lost += 1
    return lost + len(missing), refused, unanswered


def read_rows(session: Session) -> Iterator[tuple[int, int]]:
    """Yield the id and the CRC-32 of each row, in the order of ids. Raise DatabaseError."""
    last = 0
    while rows := session.query(_READ, last):
        for row in rows:
            last, crc = _row_after(last, row)
            yield last, crc


def _row_after(last: int, row: tuple[Any, ...]) -> tuple[int, int]:
    """Return the id and the CRC-32 of a row, whose id is above ``last``. Raise DatabaseError."""
    try:
        number, payload = row
        found = int(number), zlib.crc32(payload)
    except (TypeError, ValueError) as error:
        raise DatabaseError("the server's rows are not ids with payloads", kind="odd") from error
    if found[0] <= last:  # it would never end
        raise DatabaseError("the server's rows are not in the order of their ids", kind="odd")
    return found


def transactions(filled_by: FilledBy, rows: int, seed: int) -> Iterator[Rows]:
    """Yield transactions without end, on a table with ``rows`` rows that can be compressed."""
    random_bytes = random.Random(seed).randbytes  # noqa: S311
    for start in count(0, ROWS_PER_TRANSACTION):
        numbers = range(start, start + ROWS_PER_TRANSACTION)
        match filled_by:
            case "inserts":
                yield tuple((rows + n + 1, random_bytes(PAYLOAD_BYTES)) for n in numbers)
            case "growing_pages":
                yield tuple((n % rows + 1, random_bytes(PAYLOAD_BYTES)) for n in numbers)
            case "binary_log":
                yield tuple((n % rows + 1, f"{n:020}".encode() * 50) for n in numbers)


def insert(rows: Rows) -> tuple[str, tuple[object, ...]]:
    """Return the statement that inserts rows, and its values."""
    places = ", ".join(["(%s, %s)"] * len(rows))
    return f"INSERT INTO filled (id, payload) VALUES {places}", tuple(chain.from_iterable(rows))  # noqa: S608


def update(rows: Rows) -> tuple[str, tuple[object, ...]]:
    """Return the statement that gives rows a new payload, and its values."""
    cases, numbers = "WHEN %s THEN %s " * len(rows), ", ".join(["%s"] * len(rows))
    sql = f"UPDATE filled SET payload = CASE id {cases}END WHERE id IN ({numbers})"  # noqa: S608
    return sql, (*chain.from_iterable(rows), *(number for number, _ in rows))


class FillingClient:
    """A client in a thread of its own, which writes until it is closed."""

    def __init__(
        self, connect: Callable[[], Session], filled_by: FilledBy, rows: int, seed: int
    ) -> None:
        self.listed = Acknowledged()
        self.rows_written = 0
        self.commits = 0
        self.first_error: FirstError | None = None
        self.longest_wait_s = 0.0
        self.longest_outage_s = 0.0
        self.last_commit_s = time.monotonic()
        self._asked_s: float | None = None
        self._defect: BaseException | None = None
        self._connect = connect
        self._transactions = transactions(filled_by, rows, seed)
        self._statement = insert if filled_by == "inserts" else update
        self._session: Session | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin to write, on a table whose rows are in the list."""
        self.last_commit_s = time.monotonic()
        self._thread.start()

    @property
    def waiting_s(self) -> float:
        """The seconds for which the client has waited for an answer so far."""
        asked_s = self._asked_s
        return 0.0 if asked_s is None else time.monotonic() - asked_s

    def close(self, limit_s: float) -> bool:
        """End the client; return whether it has ended within the limit. Raise its own defect."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(limit_s)
        if self._defect is not None:
            defect, self._defect = self._defect, None
            raise defect
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            while not self._over.is_set():
                self._attempt(next(self._transactions))
        except Exception as defect:  # raised by ``close``
            self._defect = defect
        finally:
            self._leave()

    def _attempt(self, rows: Rows) -> None:
        sent: Rows = ()
        sql, values = self._statement(rows)
        self._asked_s = time.monotonic()
        try:
            session = self._session = self._session or self._connect()
            sent = rows
            session.query(sql, *values)
        except DatabaseError as error:
            self._answered()
            is_lost = self._session is None or not self._session.is_open
            self.listed.doubt(sent, is_lost=is_lost)
            self._note(error, is_lost=is_lost)
            if is_lost:
                self._leave()
            self._over.wait(_PAUSE_S)
            return
        self._answered()
        self._note_commit(rows)

    def _answered(self) -> None:
        self.longest_wait_s = max(self.longest_wait_s, self.waiting_s)
        self._asked_s = None

    def _note_commit(self, rows: Rows) -> None:
        now_s = time.monotonic()
        self.listed.commit(rows)
        self.longest_outage_s = max(self.longest_outage_s, now_s - self.last_commit_s)
        self.last_commit_s = now_s
        self.rows_written += len(rows)
        self.commits += 1

    def _note(self, error: DatabaseError, *, is_lost: bool) -> None:
        if self.first_error is None:
            text = shown_line(error.message)[:_LONGEST_ERROR]
            self.first_error = FirstError(time.monotonic(), error.code, text, is_lost)

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(DatabaseError):
                session.close()
