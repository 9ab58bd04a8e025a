"""Derive steps, measurements and histograms from the load generator's phases, and verify tables."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from millrace.databases.client import count_of
from millrace.errors import TrialFailed
from millrace.loadgen import events
from millrace.loadgen.datasets import DataChecksum
from millrace.model import measurements as names
from millrace.model.run_spec import Of
from millrace.store.records import HistogramRecord, MeasurementRecord, StepRecord
from millrace.workloads.definition import Workload
from millrace.workloads.statement_effects import Rows

KEEP_RATE = "keep_rate"  # the step that fails where background clients missed their rate
_KEPT_RATE = 0.99
VERIFY_ROWS = "verify_rows"  # the step that fails where statements found no rows
_FEWEST_STATEMENTS = 20  # fewer say nothing; their errors count with the transactions'


def step_records(result: events.LoadResult) -> tuple[StepRecord, ...]:
    """Return the phases as steps in a row; drive phases include connecting and warming up."""
    records = []
    offset_s = 0.0
    for position, phase in enumerate(result.phases):
        took_s = phase.duration_s
        if isinstance(phase, events.DriveResult):
            took_s += phase.connect_s + phase.warmup_s
        records.append(StepRecord(position, phase.name, offset_s, took_s, "finished"))
        offset_s += took_s
    return tuple(records)


def measurements(result: events.LoadResult) -> tuple[MeasurementRecord, ...]:
    """Return durations, work, and the load generator's CPU time (if driven: while measured)."""
    found = [each for phase in result.phases for each in _of_phase(phase)]
    usage = result.client
    if usage is not None and result.driven() is None:
        found += _client(usage)
    return tuple(found)


def loading_facts(result: events.LoadResult) -> dict[str, str | None]:
    """Return the facts about how tables were loaded, with the reason for another method."""
    for phase in result.phases:
        if isinstance(phase, events.TablesResult) and phase.method is not None:
            return {"load_method": phase.method, "load_method_reason": phase.method_reason}
    return {}


def data_measurements(expected: DataChecksum) -> tuple[MeasurementRecord, ...]:
    """Return the size of a named data set."""
    return (
        MeasurementRecord(names.ROWS, expected.rows),
        MeasurementRecord(names.DATA_BYTES, expected.bytes),
    )


def _of_phase(phase: events.AnyPhaseResult) -> Iterator[MeasurementRecord]:
    yield MeasurementRecord(names.duration_s(phase.name), phase.duration_s)
    match phase:
        case events.DriveResult():
            yield from _driven(phase)
        case events.TablesResult(tables=tables) if tables:
            yield MeasurementRecord(names.ROWS, sum(table.rows for table in tables))
            yield MeasurementRecord(names.DATA_BYTES, sum(table.bytes for table in tables))
            yield from _loaded(phase)
        case events.PhaseResult(kind="load_data"):
            yield from _loaded(phase)


def _loaded(phase: events.PhaseResult | events.TablesResult) -> Iterator[MeasurementRecord]:
    if phase.generator_wait_s is not None:
        yield MeasurementRecord(names.row_wait_s(phase.name), phase.generator_wait_s)
    yield MeasurementRecord(names.warnings(phase.name), phase.warnings)


def _driven(phase: events.DriveResult) -> Iterator[MeasurementRecord]:
    """Yield a drive phase's measurements: errors and retries by transaction, rows by statement."""
    yield MeasurementRecord(names.warmup_s(phase.name), phase.warmup_s)
    if phase.warmup_steady is not None:
        yield MeasurementRecord(names.WARMUP_STEADY, int(phase.warmup_steady))
    yield MeasurementRecord(names.connect_s(phase.name), phase.connect_s)
    if phase.partial:
        yield MeasurementRecord(names.PARTIAL, 1)
    if phase.unanswered_s:
        yield MeasurementRecord(names.UNANSWERED_S, phase.unanswered_s)
    transactions, statements = phase.transactions, phase.statements
    yield MeasurementRecord(names.TRANSACTIONS, sum(each.count for each in transactions))
    yield MeasurementRecord(names.STATEMENTS, sum(each.count for each in statements))
    yield MeasurementRecord(names.ROWS_READ, sum(each.rows for each in statements))
    yield MeasurementRecord(names.ROWS_AFFECTED, sum(each.affected_rows for each in statements))
    errors = sum((Counter(each.errors) for each in transactions), Counter[str]())
    yield MeasurementRecord(names.ERRORS, errors.total())
    for code, count in sorted(errors.items()):
        yield MeasurementRecord(names.errors_of(code), count)
    yield MeasurementRecord(names.RETRIES, sum(each.retries for each in transactions))
    yield MeasurementRecord(names.BYTES_SENT, sum(each.bytes_sent for each in statements))
    yield MeasurementRecord(names.BYTES_RECEIVED, sum(each.bytes_received for each in statements))
    if phase.pacing.kind == "open":
        yield MeasurementRecord(names.SCHEDULED, phase.pacing.scheduled)
        yield MeasurementRecord(names.LATE, phase.pacing.late)
        yield MeasurementRecord(names.SKIPPED, phase.pacing.skipped)
    elif phase.mean_gap_s is not None:
        yield MeasurementRecord(names.MEAN_GAP_S, phase.mean_gap_s)
    if phase.maintenance is not None:
        yield from _maintained(phase.maintenance)
    if phase.client is not None:
        yield from _client(phase.client)
    for group in phase.background_clients:
        yield from _background(group)


def _background(group: events.BackgroundResult) -> Iterator[MeasurementRecord]:
    yield MeasurementRecord(names.background_done(group.test), _done(group))
    if group.pacing.kind == "open":
        yield MeasurementRecord(names.background_scheduled(group.test), group.pacing.scheduled)
        yield MeasurementRecord(names.background_late(group.test), group.pacing.late)
    longest_s = max((each.service.max_s or 0.0 for each in group.transactions), default=0.0)
    yield MeasurementRecord(names.background_longest_s(group.test), longest_s)


def _done(group: events.BackgroundResult) -> int:
    return sum(each.count for each in group.transactions)


def _maintained(maintenance: events.MaintenanceResult) -> Iterator[MeasurementRecord]:
    took_s = maintenance.statements_s
    yield MeasurementRecord(names.MAINTENANCE_S, sum(took_s))
    yield MeasurementRecord(names.MAINTENANCE_STATEMENTS, len(took_s))
    yield MeasurementRecord(names.MAINTENANCE_LONGEST_S, max(took_s, default=0.0))
    for part in maintenance.parts:
        yield MeasurementRecord(names.PART_S[part.name], part.duration_s)
        yield MeasurementRecord(names.PART_TRANSACTIONS[part.name], part.count)


def _client(usage: events.ClientUsage) -> Iterator[MeasurementRecord]:
    yield MeasurementRecord(names.LOAD_GENERATOR_USER_S, usage.user_s)
    yield MeasurementRecord(names.LOAD_GENERATOR_SYSTEM_S, usage.system_s)
    yield MeasurementRecord(names.LOAD_GENERATOR_VOLUNTARY_SWITCHES, usage.voluntary_switches)
    yield MeasurementRecord(names.LOAD_GENERATOR_INVOLUNTARY_SWITCHES, usage.involuntary_switches)


def histograms(result: events.LoadResult) -> tuple[HistogramRecord, ...]:
    """Return the latencies of each kind of transaction and statement of the drive phase."""
    driven = result.driven()
    return () if driven is None else tuple(_histograms(driven))


def _histograms(driven: events.DriveResult) -> Iterator[HistogramRecord]:
    for record in driven.transactions:
        yield from _of_record(driven.name, "transaction", record)
    for record in driven.statements:
        yield from _of_record(driven.name, "statement", record)
    if driven.maintenance is not None:
        for part in driven.maintenance.parts:
            yield from _of_record(driven.name, part.name, part)
    for group in driven.background_clients:
        for record in group.transactions:
            yield from _of_record(driven.name, "background", record, group.test)


def _of_record(
    phase: str, of: Of, record: events.Record, name: str | None = None
) -> Iterator[HistogramRecord]:
    found: dict[Literal["service", "response"], events.HistogramResult | None] = {
        "service": record.service,
        "response": record.response,
    }
    for kind, histogram in found.items():
        if histogram is not None:
            encoded, count, sum_s = histogram.encoded, histogram.count, histogram.sum_s
            yield HistogramRecord(phase, of, name or record.name, kind, encoded, count, sum_s)


def verify(workload: Workload, result: events.LoadResult, expected: DataChecksum) -> None:
    """Raise TrialFailed unless the table holds exactly the rows that were generated."""
    kinds = {phase.name: phase.kind for phase in workload.phases}
    for phase in result.phases:
        if not isinstance(phase, events.PhaseResult):
            continue
        kind = kinds[phase.name]
        if kind == "count":
            _expect(phase.name, "rows", _cell(phase.result, 0), expected.rows)
        elif kind == "checksum":
            _expect(phase.name, "rows", _cell(phase.result, 0), expected.rows)
            _expect(phase.name, "checksum", _cell(phase.result, 1), expected.checksum)


def refuse_partial(result: events.LoadResult) -> None:
    """Raise TrialFailed where the clients did less than requested, which does not count."""
    for driven in result.drives:
        if driven.partial:
            raise TrialFailed(
                f"the clients of {driven.test} ended early: {driven.partial_reason}",
                hint="where rows were used up, load more or ask for less (operations, time_s)",
            )


def refuse_failed(result: events.LoadResult) -> None:
    """Raise TrialFailed where no transaction of a drive succeeded."""
    for driven in result.drives:
        errors = sum((Counter(each.errors) for each in driven.transactions), Counter[str]())
        if errors and not any(each.count for each in driven.transactions):
            codes = ", ".join(map(str, sorted(errors)))
            raise TrialFailed(
                f"all transactions of {driven.test} ended in an error ({codes})",
                hint="look at the server's error log and at the test's statements",
            )


def refuse_idle(result: events.LoadResult) -> None:
    """Raise TrialFailed where no transaction of the measured drive ended, well or not.

    In a closed loop the load generator waits for one. A server that skips all of an open loop's
    schedule has a result: that share.
    """
    driven = result.driven()
    if driven is None or driven.pacing.skipped:
        return
    if not any(each.count or each.errors for each in driven.transactions):
        raise TrialFailed(
            f"no transaction of {driven.test} ended in the measured part",
            hint="a longer time_s, or a higher rate",
        )


def refuse_missed_rates(result: events.LoadResult) -> None:
    """Raise TrialFailed where background clients missed their rate: with less load, speed is none.

    One transaction of each client may be due and not begun when the measured part ends.
    """
    groups = ((drive, group) for drive in result.drives for group in drive.background_clients)
    for drive, group in groups:
        due, done = group.pacing.scheduled, _done(group)
        if group.pacing.kind == "open" and done < _KEPT_RATE * due - group.clients:
            raise TrialFailed(
                f"in {drive.test}, the background clients of {group.test} missed their rate: "
                f"{done:,} of {due:,} transactions that were due were done ({done / due:.0%})",
                hint="the figures of such a step compare with nothing; a lower rate, or a faster "
                "host",
                step=KEEP_RATE,
            )


def refuse_no_rows(rows: Mapping[str, Rows], result: events.LoadResult) -> None:
    """Raise TrialFailed where a statement of ``rows``, which always finds one, never did."""
    driven = result.driven()
    for record in () if driven is None else driven.statements:
        did = rows.get(record.name)
        met = record.rows if did == "read" else record.affected_rows
        if did is not None and record.count >= _FEWEST_STATEMENTS and met == 0:
            raise TrialFailed(
                f"{record.name} {did} no row in {record.count:,} statements, though each one names "
                f"a row that the tables were loaded with",
                hint="look at the tables and at the server's error log: rows were lost, or the "
                "server answers without them",
                step=VERIFY_ROWS,
            )


def _cell(rows: Sequence[Sequence[str | None]] | None, column: int) -> int:
    """Return a count in an answer's only row, 0 without a row. Raise TrialFailed if it is none."""
    try:
        return count_of(rows[0][column] or 0) if rows else 0
    except (IndexError, ValueError) as error:
        raise TrialFailed(
            f"cannot understand the answer that describes the table: {error}", step=VERIFY_ROWS
        ) from error


def _expect(phase: str, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise TrialFailed(
            f"the table holds other data than was made: {what} {found:,}, expected {expected:,}",
            hint="look at the server's error log and warnings: rows were lost or changed",
            step=phase,
        )
