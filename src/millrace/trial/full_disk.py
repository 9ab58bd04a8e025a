"""Fill the disk of a server, give the space back, restart the server, and look at its rows.

The first trouble counts: an error, silence, or the server's end. From then on the disk stays full
for a while, also where no trouble came in as long a time; then the ballast goes, and the server has
some time to write again on its own. It is restarted in any case, so that its rows are read from the
disk.

The client that writes keeps a list of its own: the id and the CRC-32 of each row whose transaction
the server has committed, refused, or not answered. A transaction is one statement.
"""

import contextlib
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from typing import Any, Literal, cast

from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.errors import DatabaseError, TrialFailed
from millrace.host.limited_filesystem import LimitedFilesystem
from millrace.model import measurements as names
from millrace.model.events import IntervalEnded
from millrace.model.instance_facts import FullDiskFact
from millrace.model.phases import FILL_DISK
from millrace.servers.instances.instance import Instance
from millrace.shown_text import shown_line
from millrace.store.records import StepRecord
from millrace.trial import measurements, time_limits
from millrace.trial.data_directory import DATABASE
from millrace.trial.hooks import LiveServer
from millrace.trial.load_run import run_phases
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.steps import Step
from millrace.trial.trial_server import TrialContext

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


_POLL_S = 0.02
_SILENCE_S = 5.0  # that counts as trouble where no space is left
_SLOW_S = 60.0  # the same where there is some: a slow host alone may stall for seconds
_NOTHING_BYTES = 1 << 20  # what is as good as no space
_PROBE_EVERY_S = 1.0
_PROBE_LIMIT_S = 3
_ENOUGH = 4  # times the free space is written at most
_SLOWEST_BYTES_PER_S = 500_000
_AFTERWARDS_S = 1.0  # of writing after it has recovered
_STOP_LIMIT_S = 60.0
_START_LIMIT_S = 180.0
_GRACE_S = 30.0
_LONGEST_REASON = 300  # characters

_BASE_BYTES = 2 << 30  # what any server needs, with room


def size_bytes(workload: ResolvedWorkload) -> int:
    """Return the size of the file system: most of it is ballast, and returns."""
    return _BASE_BYTES + 8 * _free_bytes(workload)


def _free_bytes(workload: ResolvedWorkload) -> int:
    return int(workload.values["free_mb"]) * 10**6


@dataclass
class FullDisk:
    """A trial that fills the disk of its server; each method is a step."""

    trial: TrialContext
    server: LiveServer
    instance: Instance
    filesystem: LimitedFilesystem
    _client: FillingClient = field(init=False)
    _listed: Acknowledged = field(init=False)
    _found: dict[str, Any] = field(init=False, default_factory=dict)  # of FullDiskFact

    def __post_init__(self) -> None:
        workload = self.trial.spec.workload
        self._loading = [each for each in workload.checked.phases if each.kind != FILL_DISK]
        self._phase = workload.checked.phases[-1].name
        self._full_s = float(workload.values["full_s"])
        self._recovery_s = float(workload.values["recovery_s"])

    def steps(self) -> Iterator[Step]:
        """Yield the steps from the empty database to the record of what the server did."""
        workload = self.trial.spec.workload
        filling_s = _ENOUGH * _free_bytes(workload) / _SLOWEST_BYTES_PER_S
        full_s = self._full_s + self._recovery_s + _GRACE_S
        scan_s = time_limits.scan_limit_s(workload)
        yield Step("load", self._load, time_limits.limit_s(self._loading, workload))
        yield Step("complete_files", self._complete_files, _STOP_LIMIT_S + _START_LIMIT_S)
        yield Step("list_rows", self._list_rows, scan_s)
        yield Step(self._phase, self._fill, filling_s + full_s)
        yield Step("restart", self._restart, _STOP_LIMIT_S + _START_LIMIT_S + _GRACE_S)
        yield Step("compare_rows", self._compare, scan_s)

    def _load(self, limit_s: float) -> Sequence[StepRecord]:
        result = run_phases(
            self._loading, self.trial.spec.workload, self.server, self.trial.emit, limit_s
        )
        return measurements.step_records(result)

    def _complete_files(self, _limit_s: float) -> None:
        """Let the server write all pages, which frees what they do not need, and start again."""
        for statement in self.trial.spec.servers[0].table_format.before_stop:
            self.instance.query(statement, limit_s=QUERY_LIMIT_S)
        self.instance.stop(_STOP_LIMIT_S)
        self.instance.start(_START_LIMIT_S)

    def _list_rows(self, _limit_s: float) -> None:
        """List the loaded rows, which the load generator has compared with what it made."""
        loaded = self.trial.spec.workload.rows
        with contextlib.closing(self._session(QUERY_LIMIT_S)) as session:
            listed = dict(islice(read_rows(session), loaded + 1))
        if len(listed) > loaded:
            raise TrialFailed(f"the server lists more rows than the {loaded:,} that were loaded")
        self._listed = Acknowledged(committed=listed)

    def _fill(self, _limit_s: float) -> None:
        workload = self.trial.spec.workload
        answer_limit_s = self._full_s + self._recovery_s + _GRACE_S
        client = FillingClient(
            partial(self._session, answer_limit_s),
            cast(FilledBy, workload.values["filled_by"]),
            workload.rows,
            int(workload.table_values["data_seed"]),
        )
        client.listed = self._listed
        self._client = client
        self.trial.opened.callback(self._end_client)  # before its mounts end
        self.filesystem.take_all_but(_free_bytes(workload))
        client.start()
        began_s = time.monotonic()
        trouble = self._await_trouble(began_s)
        free_bytes = self.filesystem.free_bytes
        self._found |= {
            "trouble": trouble,
            "trouble_s": time.monotonic() - began_s,
            "free_bytes": free_bytes,
        }
        self.trial.outputs.add_measurement(names.ROWS_UNTIL_FULL, client.rows_written)
        is_full = trouble is not None or free_bytes < _NOTHING_BYTES
        self._stay_full(self._full_s if is_full else 0.0)
        if trouble is None and (later := self._trouble()) is not None:
            self._found |= {"trouble": later, "trouble_s": time.monotonic() - began_s}
        self.filesystem.give_back()
        self._recover()
        wait_s = max(client.longest_wait_s, client.waiting_s)
        self.trial.outputs.add_measurement(names.LONGEST_WAIT_S, wait_s)
        client.close(_AFTERWARDS_S)

    def _await_trouble(self, began_s: float) -> str | None:
        """Return the first trouble; None where the client can write on, or has written enough."""
        client, shown_s, full_s = self._client, 0.0, None
        enough = _ENOUGH * _free_bytes(self.trial.spec.workload)
        while client.rows_written * PAYLOAD_BYTES < enough:
            if (trouble := self._trouble()) is not None:
                return trouble
            passed_s = time.monotonic() - began_s
            if self.filesystem.free_bytes >= _NOTHING_BYTES:
                full_s = None
            elif full_s is None:
                full_s = passed_s
            elif passed_s - full_s > self._full_s:
                return None
            if passed_s >= shown_s + 1:
                shown_s = passed_s
                rows = client.rows_written
                self.trial.emit(IntervalEnded(phase=self._phase, t_s=passed_s, rows=rows))
            time.sleep(_POLL_S)
        return None

    def _trouble(self) -> str | None:
        if self.instance.ended is not None:
            return "end"
        if (error := self._client.first_error) is not None:
            return "end" if error.is_lost and self._ends_within(_SILENCE_S) else "error"
        is_full = self.filesystem.free_bytes < _NOTHING_BYTES
        patience_s = _SILENCE_S if is_full else _SLOW_S
        return "silence" if self._client.waiting_s > patience_s else None

    def _ends_within(self, limit_s: float) -> bool:
        """Return whether the server ends; it writes where it crashed first."""
        until_s = time.monotonic() + limit_s
        while self.instance.ended is None and time.monotonic() < until_s:
            time.sleep(_POLL_S)
        return self.instance.ended is not None

    def _stay_full(self, for_s: float) -> None:
        """Ask for a row again and again meanwhile, in sessions of their own."""
        client, until_s = self._client, time.monotonic() + for_s
        commits, reads, answered = client.commits, 0, 0
        while time.monotonic() < until_s:
            next_s = time.monotonic() + _PROBE_EVERY_S
            reads += 1
            answered += self._answers_a_read()
            time.sleep(max(0.0, min(next_s, until_s) - time.monotonic()))
        error = client.first_error
        self._found |= {
            "reads": reads,
            "reads_answered": answered,
            "commits_while_full": client.commits - commits,
            "waiting_s": client.waiting_s,
            "error_code": None if error is None else error.code,
            "error": None if error is None else error.text,
        }

    def _answers_a_read(self) -> bool:
        try:
            with contextlib.closing(self._session(_PROBE_LIMIT_S)) as session:
                return bool(session.query(READ_ONE))
        except DatabaseError:
            return False

    def _recover(self) -> None:
        """Wait until the server writes again on its own."""
        client, began_s = self._client, time.monotonic()
        commits, recovered_s = client.commits, None
        while recovered_s is None and time.monotonic() < began_s + self._recovery_s:
            if client.commits > commits:
                recovered_s = time.monotonic() - began_s
                self.trial.outputs.add_measurement(names.RECOVERY_S, recovered_s)
                time.sleep(_AFTERWARDS_S)
            elif self.instance.ended is not None:
                break
            else:
                time.sleep(_POLL_S)
        self._found |= {
            "recovery_s": recovered_s,
            "recovery_limit_s": self._recovery_s,
            "ended": self._end(),
        }

    def _end(self) -> str | None:
        """Return how the server has ended, with the words of its log; None where it lives."""
        if (ended := self.instance.ended) is None:
            return None
        trouble = self.instance.trouble()
        said = ended if trouble is None else f"{ended}; its log says: {trouble}"
        return shown_line(said)[:_LONGEST_REASON]

    def _end_client(self) -> None:
        """End the client, and for that the server where it waits for an answer."""
        if not self._client.close(0.1):
            self.instance.kill()
            self._client.close(_GRACE_S)

    def _restart(self, _limit_s: float) -> None:
        stop_failed = restart_failed = restart_s = None
        if self._found["ended"] is None:
            try:
                self.instance.stop(_STOP_LIMIT_S)
            except TrialFailed as failure:
                stop_failed = self._reason(failure)
        self.instance.kill()  # what is left of it
        self._end_client()
        began_s = time.monotonic()
        try:
            self.instance.start(_START_LIMIT_S, may_recover=True)
            restart_s = time.monotonic() - began_s
        except TrialFailed as failure:
            restart_failed = self._reason(failure)
        self._found |= {
            "stop_failed": stop_failed,
            "restart_s": restart_s,
            "restart_failed": restart_failed,
        }
        self.instance.trouble()  # of the start
        client, outage_s = self._client, self._client.longest_outage_s
        if self._found["recovery_s"] is None:
            outage_s = max(outage_s, time.monotonic() - client.last_commit_s)
        self.trial.outputs.add_measurement(names.LONGEST_OUTAGE_S, outage_s)

    def _compare(self, _limit_s: float) -> None:
        rows: tuple[int | None, ...] = (None, None, None)
        unreadable = self._found["restart_failed"]
        if unreadable is None:
            try:
                with contextlib.closing(self._session(QUERY_LIMIT_S)) as session:
                    rows = compared(read_rows(session), self._listed)
            except DatabaseError as error:
                unreadable = self._why_unreadable(error)
        lost, refused, unanswered = rows
        fact = FullDiskFact(
            **self._found,
            committed_rows=len(self._listed.committed),
            lost_rows=lost,
            refused_rows=refused,
            unanswered_rows=unanswered,
            unreadable=unreadable,
        )
        self.trial.outputs.add_facts(self.server.role, full_disk=fact)

    def _why_unreadable(self, error: DatabaseError) -> str:
        said = error.message
        if self._ends_within(_SILENCE_S):
            said = f"the server {self._end()}"
        return shown_line(said)[:_LONGEST_REASON]

    def _session(self, limit_s: float) -> Session:
        return self.instance.connect(DATABASE, limit_s=limit_s)

    def _reason(self, failure: TrialFailed) -> str:
        """Return the first line of a failure's message, without the server's name."""
        name = self.instance.server.name
        said = failure.message.split("\n", 1)[0]
        for doing in (" (stopping)", " (starting)", ""):
            said = said.removeprefix(f"{name}{doing}: ")
        return shown_line(said)[:_LONGEST_REASON]
