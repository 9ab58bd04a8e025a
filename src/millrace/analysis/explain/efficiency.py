"""The cost of one operation, as practitioners publish it: CPU, context switches, I/O, rows.

Each figure has sources, the best first. Both sides use the same one, since two sources do not count
the same thing; without a source that serves both, there is nothing to compare.

*fsyncs* are those of the storage engine's files, the redo log among them. Those of the binary log
are not, and a log that is written with O_DSYNC needs none; *device flushes* have all that reached
the device. *redo log* is the growth of the log sequence number, or, where the server does not show
that, the blocks that it wrote to the log (``model.observations.Counters``). *binary log* is the
growth of its files. Reads and bytes are the device's, for everyone on the host, as iostat has them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log

from millrace.analysis.explain.observations import (
    OBSERVER,
    US_PER_S,
    Observed,
    ObservedTrial,
    figure_of,
)
from millrace.analysis.explain.time_breakdown import ALPHA
from millrace.model import measurements
from millrace.model.roles import MEASURED
from millrace.stats.mean import MeanEstimate, complete_sum, mean_estimate
from millrace.stats.multiple_tests import holm_marks
from millrace.stats.ratio import RatioEstimate, paired_ratio

_KB = 1024.0

Ask = Callable[[ObservedTrial], float | None]


@dataclass(frozen=True)
class EfficiencyRow:
    """A figure of one operation in A and B, in ``unit``; None for what was not measured.

    All are of the blocks that both sides have, paired: ``difference`` is B - A and ``relative``
    B / A, where no trial has 0. ``a`` or ``b`` are of all trials where there is nothing to compare.
    ``source`` names the source of both sides, or of each where they differ. ``p_value`` is that of
    the ratio, or of the difference without one; ``adjusted_p`` is Holm's over the rows;
    ``significant`` rows differ after that correction.
    """

    key: str
    title: str
    unit: str
    source: str
    a: MeanEstimate | None
    b: MeanEstimate | None
    difference: MeanEstimate | None
    relative: RatioEstimate | None
    p_value: float | None = None
    adjusted_p: float | None = None
    significant: bool = False


@dataclass(frozen=True)
class _Figure:
    key: str
    title: str
    unit: str
    sources: tuple[tuple[str, Ask], ...]


def compare_efficiency(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> tuple[EfficiencyRow, ...]:
    """Return the table of two treatments, without the rows that neither side measured."""
    rows = [_row(figure, a, b) for figure in _FIGURES]
    return _marked([row for row in rows if row.a is not None or row.b is not None])


def _row(figure: _Figure, a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]) -> EfficiencyRow:
    by_source = [(source, _values(ask, a), _values(ask, b)) for source, ask in figure.sources]
    source, of_a, of_b = next((each for each in by_source if each[1] and each[2]), ("", {}, {}))
    difference = relative = p_value = None
    if not source:
        source, of_a, of_b = _apart(by_source)
    elif blocks := sorted(of_a.keys() & of_b.keys()):
        of_a, of_b = ({block: side[block] for block in blocks} for side in (of_a, of_b))
        pairs = list(zip(of_a.values(), of_b.values(), strict=True))
        difference = mean_estimate([y - x for x, y in pairs])
        p_value = difference.p_value
        if all(min(pair) > 0 for pair in pairs):
            relative = paired_ratio(*zip(*pairs, strict=True))
            p_value = mean_estimate([log(y / x) for x, y in pairs]).p_value
    return EfficiencyRow(
        key=figure.key,
        title=figure.title,
        unit=figure.unit,
        source=source,
        a=mean_estimate(list(of_a.values())) if of_a else None,
        b=mean_estimate(list(of_b.values())) if of_b else None,
        difference=difference,
        relative=relative,
        p_value=p_value,
    )


def _values(ask: Ask, trials: Sequence[ObservedTrial]) -> dict[int, float]:
    """Return the values by block; empty where any trial lacks one, for a mean of other trials."""
    values = {trial.block: ask(trial) for trial in trials}
    known = {block: value for block, value in values.items() if value is not None}
    return known if len(known) == len(values) else {}


def _apart(
    by_source: Sequence[tuple[str, dict[int, float], dict[int, float]]],
) -> tuple[str, dict[int, float], dict[int, float]]:
    """Return the best source of each side, where none serves both."""
    none: tuple[str, dict[int, float]] = ("", {})
    a_source, of_a = next(((source, a) for source, a, _ in by_source if a), none)
    b_source, of_b = next(((source, b) for source, _, b in by_source if b), none)
    return "; ".join(dict.fromkeys(filter(None, (a_source, b_source)))), of_a, of_b


def _marked(rows: Sequence[EfficiencyRow]) -> tuple[EfficiencyRow, ...]:
    """Return the rows with Holm's p-values; one that is 0 on both sides asks no question."""
    asked = [
        row.p_value if any(side is not None and side.mean for side in (row.a, row.b)) else None
        for row in rows
    ]
    return tuple(
        replace(row, adjusted_p=mark.adjusted_p, significant=mark.significant)
        for row, mark in zip(rows, holm_marks(asked, ALPHA), strict=True)
    )


def _of(amount_of: Callable[[Observed], float | None], unit: float = 1.0) -> Ask:
    """Return an amount of the window, of one operation and in units of ``unit``."""

    def ask(trial: ObservedTrial) -> float | None:
        amount = amount_of(trial.observed)
        return None if amount is None else trial.observed.per_operation(amount) / unit

    return ask


def _background_s(observed: Observed) -> float | None:
    """Sum the CPU time of all threads that serve neither a client nor millrace."""
    if observed.foreground is None:
        return None
    return complete_sum(
        usage.cpu_s for kind, usage in observed.background.items() if kind != OBSERVER
    )


def server_cpu_s(trial: ObservedTrial, *, user_only: bool = False) -> float | None:
    """Return CPU time of the whole server in the window, or in user code alone, if known."""
    process = trial.observed.process
    seen_s = None if process is None else process.user_s if user_only else process.cpu_s
    if seen_s is not None:
        return seen_s
    measured = {m.name: m.value for m in trial.attempt.measurements if m.role in MEASURED}
    kinds = ("user",) if user_only else ("user", "system")
    used_s = complete_sum(measured.get(f"server_{kind}_s") for kind in kinds)
    if used_s is None:
        return None
    return used_s * trial.observed.operations / trial.observed.work.operations


def _server_us(trial: ObservedTrial) -> float | None:
    cpu_s = server_cpu_s(trial)
    return None if cpu_s is None else trial.observed.us(cpu_s)


def _rows_examined(observed: Observed) -> float | None:
    known = observed.digests
    return complete_sum(each.rows_examined for each in known) if known else None


def pool_requests(trial: ObservedTrial) -> float | None:
    """Return the pages that an operation asked of the buffer pool, as counted between the marks."""
    return _measured(trial, measurements.BUFFER_POOL_READ_REQUESTS)


def _measured(trial: ObservedTrial, name: str) -> float | None:
    for measurement in trial.attempt.measurements:
        if measurement.role in MEASURED and measurement.name == name:
            return measurement.value / trial.observed.work.operations
    return None


_PER_US = 1 / US_PER_S
_DEVICE, _PROCESS, _ENGINE = "the device", "the server's process", "the storage engine"


def _of_process(name: str, unit: float = 1.0) -> tuple[str, Ask]:
    return _PROCESS, _of(lambda observed: figure_of(observed.process, name), unit)


def _of_device(name: str, unit: float = 1.0, source: str = _DEVICE) -> tuple[str, Ask]:
    return source, _of(lambda observed: figure_of(observed.disk, name), unit)


def _counter(name: str, source: str = _ENGINE) -> tuple[str, Ask]:
    return source, _of(lambda observed: observed.counted(name))


_FIGURES = (
    _Figure(
        "cpu_foreground", "server CPU, foreground", "µs",
        (("threads that serve clients",
          _of(lambda observed: figure_of(observed.foreground, "cpu_s"), _PER_US)),),
    ),
    _Figure(
        "cpu_background", "server CPU, background", "µs",
        (("all other threads", _of(_background_s, _PER_US)),),
    ),
    _Figure(
        "cpu_observers", "server CPU, sessions of millrace", "µs",
        (("threads that serve millrace's observers",
          _of(lambda seen: figure_of(seen.background.get(OBSERVER), "cpu_s"), _PER_US)),),
    ),
    _Figure("cpu_server", "server CPU, all", "µs", ((_PROCESS, _server_us),)),
    _Figure(
        "cpu_client", "client CPU", "µs",
        (("the load generator", lambda trial: trial.observed.work.client_cpu_us),),
    ),
    _Figure("voluntary_switches", "context switches, voluntary", "",
            (_of_process("voluntary_switches"),)),
    _Figure("involuntary_switches", "context switches, involuntary", "",
            (_of_process("involuntary_switches"),)),
    _Figure("reads", "reads", "", (_of_device("reads"),)),
    _Figure("read_kb", "read", "KB",
            (_of_device("read_bytes", _KB), _of_process("read_bytes", _KB))),
    _Figure("write_kb", "written", "KB",
            (_of_device("write_bytes", _KB), _of_process("write_bytes", _KB))),
    _Figure(
        "fsyncs", "fsyncs", "",
        (_counter("fsyncs"), _of_device("flushes", source="flushes of the device")),
    ),
    _Figure("flushes", "device flushes", "", (_of_device("flushes"),)),
    _Figure(
        "redo_bytes", "redo log", "bytes",
        (_counter("redo_bytes", "log sequence number"),
         _counter("log_written_bytes", "blocks written to the log")),
    ),
    _Figure(
        "binary_log_bytes", "binary log", "bytes",
        (_counter("binary_log_bytes", "sizes of the log's files"),),
    ),
    _Figure(
        "rows_examined", "rows examined", "",
        (("statement digests", _of(_rows_examined)),
         _counter("all_handler_reads", "rows fetched from the engine")),
    ),
    _Figure(
        "pool_requests", "pages asked of the buffer pool", "",
        ((f"{_ENGINE}, between the marks", pool_requests),),
    ),
    _Figure(
        "pool_misses", "buffer pool misses", "",
        ((f"{_ENGINE}, between the marks",
          lambda trial: _measured(trial, measurements.BUFFER_POOL_READS)),
         _counter("buffer_pool_misses")),
    ),
)  # fmt: skip
