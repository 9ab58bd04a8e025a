"""Time limits of a workload's phases. Generous: they end what hangs, not what is slow."""

from __future__ import annotations

from collections.abc import Iterable

from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.workloads.definition import Phase

_SHORT_S = 120.0
# The slowest published load made 199,446 rows/s and the slowest count(*) 373,689 rows/s; a tenth to
# a fiftieth of that is "hung".
_LOAD_ROWS_PER_S = 5_000
_SCAN_ROWS_PER_S = 20_000
# One statement a row: a disk that takes a flush for each makes about 100 a second.
_SINGLE_ROWS_PER_S = 40
# Two scans of a table and its index, read in random order from a slow disk.
_WARM_ROWS_PER_S = 2_000
_TRANSACTIONS_PER_S = 20
_CONNECTIONS_PER_S = 100
_STEADY_S = 300.0  # as the load generator's own bench waits for steady throughput


def limit_s(phases: Iterable[Phase], work: ResolvedWorkload) -> float:
    """What ``phases`` together may take, in seconds."""
    return sum(phase_limit_s(phase, work) for phase in phases)


def phase_limit_s(phase: Phase, work: ResolvedWorkload) -> float:
    """What one phase may take, in seconds."""
    match phase.kind:
        case "drive":
            return _SHORT_S + _driving_s(work)
        case "load_data":
            rows_per_s = _LOAD_ROWS_PER_S
        case "load_tables":
            single = work.of_tables["load_method"] == "single_row"
            rows_per_s = _SINGLE_ROWS_PER_S if single else _LOAD_ROWS_PER_S
        case "warm_tables":
            rows_per_s = _WARM_ROWS_PER_S
        case _:
            return scan_limit_s(work)
    return _SHORT_S + work.rows / rows_per_s


def scan_limit_s(work: ResolvedWorkload) -> float:
    """Return what reading all tables once or twice may take, in seconds."""
    return _SHORT_S + work.rows / _SCAN_ROWS_PER_S


def _driving_s(work: ResolvedWorkload) -> float:
    """Connecting, warm-up and the measured part. It ends by itself when its time is over; only the
    last requests of each client may take longer."""
    values = work.values
    operations, rate = int(values["operations"]), float(values["rate"])
    measured_s = float(values["time_s"])
    if operations:
        measured_s = operations / (min(rate, _TRANSACTIONS_PER_S) or _TRANSACTIONS_PER_S)
    connecting_s = int(values["clients"]) / _CONNECTIONS_PER_S
    return connecting_s + warmup_s(work) + 2 * measured_s


def warms_until_steady(work: ResolvedWorkload) -> bool:
    """Whether the warm-up ends when throughput is steady, instead of by time."""
    return bool(work.values["warmup"] == "steady")


def warmup_s(work: ResolvedWorkload) -> float:
    """How long the warm-up takes, or may take at most, in seconds."""
    return _STEADY_S if warms_until_steady(work) else float(work.values["warmup_s"])
