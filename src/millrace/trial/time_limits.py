"""Set the time limits of a workload's phases, so generous that they end only what hangs."""

from collections.abc import Iterable

from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.workloads.phases import Phase

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
# A replica that searches a whole table for each row is as good as hung.
_APPLIED_ROWS_PER_S = 1_000
# One thread of a replica may apply what many clients changed: this many times their time, at most.
_APPLYING = 20
_CONNECTIONS_PER_S = 100
_STEADY_S = 300.0  # as the load generator's own bench waits for steady throughput


def limit_s(phases: Iterable[Phase], workload: ResolvedWorkload) -> float:
    """Return the time limit of ``phases`` together, in seconds."""
    return sum(phase_limit_s(phase, workload) for phase in phases)


def phase_limit_s(phase: Phase, workload: ResolvedWorkload) -> float:
    """Return the time limit of one phase, in seconds."""
    match phase.kind:
        case "drive":
            maintenance_s = 0.0 if phase.maintenance is None else scan_limit_s(workload)
            return _SHORT_S + _driving_s(workload) + maintenance_s
        case "load_data":
            rows_per_s = _LOAD_ROWS_PER_S
        case "load_tables":
            single = workload.load_settings.load_method == "single_row"
            rows_per_s = _SINGLE_ROWS_PER_S if single else _LOAD_ROWS_PER_S
        case "warm_tables":
            rows_per_s = _WARM_ROWS_PER_S
        case "apply":
            driving_s = _driving_s(workload) if workload.drives else 0.0
            return _SHORT_S + _APPLYING * driving_s + workload.rows / _APPLIED_ROWS_PER_S
        case _:
            return scan_limit_s(workload)
    return _SHORT_S + workload.rows / rows_per_s


def ageing_limit_s(prior: Iterable[ResolvedWorkload]) -> float:
    """Return the time limit of tests that come before the measured one, in seconds."""
    return sum(phase_limit_s(each.drive_phase, each) for each in prior)


def replica_limit_s(workload: ResolvedWorkload) -> float:
    """Return the time limit of a replica, to copy and apply changes, and of checks of both ends."""
    if workload.apply_phase is None:
        return 0.0
    checking_s = limit_s(workload.checking_phases, workload)
    return 2 * (phase_limit_s(workload.apply_phase, workload) + checking_s)


def scan_limit_s(workload: ResolvedWorkload) -> float:
    """Return the time limit of reading all tables once or twice, in seconds."""
    return _SHORT_S + workload.rows / _SCAN_ROWS_PER_S


def _driving_s(workload: ResolvedWorkload) -> float:
    """Return the time to connect, warm up and measure twice: only last requests may exceed it."""
    settings = workload.client_settings
    measured_s = settings.time_s
    if settings.operations:
        rate = min(settings.rate, _TRANSACTIONS_PER_S) or _TRANSACTIONS_PER_S
        measured_s = settings.operations / rate
    clients = settings.clients + workload.checked.background_client_count(workload.values)
    connecting_s = clients / _CONNECTIONS_PER_S
    return connecting_s + warmup_s(workload) + 2 * measured_s


def warms_until_steady(workload: ResolvedWorkload) -> bool:
    """Return whether the warm-up ends when throughput is steady, instead of by time."""
    return workload.client_settings.warmup == "steady"


def warmup_s(workload: ResolvedWorkload) -> float:
    """Return the duration of the warm-up, or its limit, in seconds."""
    return _STEADY_S if warms_until_steady(workload) else workload.client_settings.warmup_s
