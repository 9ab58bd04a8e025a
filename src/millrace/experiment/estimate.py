"""Estimate the time and disk space of a plan, from earlier measurements or rough constants.

Disk space is the peak of one trial (or round), because each trial removes its files. It is the sum
of redo log, system tables, tables, undo log and twice the binary log (a transaction is first cached
in a file). A data file that the server loads exists during all trials.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from millrace.errors import HostError
from millrace.experiment.groups import measured_together
from millrace.experiment.model import Plan, PlannedTrial, Treatment
from millrace.experiment.plan import chosen, profiled_values
from millrace.levels import Values
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.model.trials import is_in_measured_block
from millrace.quantities import counted, duration_in_words, readable_size
from millrace.workloads import Workload
from millrace.workloads.statement_effects import n_statements
from millrace.workloads.tables import Volume

# Seconds of a trial apart from its rows: initialise, start, stop, remove (measured: 1 to 5 s).
TRIAL_OVERHEAD_S = 4.0
# The same for a trial that restores a snapshot (measured: 2 to 3 s).
RESTORED_OVERHEAD_S = 2.5
# Counting and verifying a table, and generating its checksum, relative to loading it.
AFTER_LOAD = 0.35
# Insert undo of one big transaction, per row: table id, type, primary key.
UNDO_ROW_BYTES = 25
# Loading tables with their indexes, and the rate of closed loops of small statements: rough, for
# estimates before anything was measured.
TABLE_ROWS_PER_S = 60_000
STATEMENTS_PER_S = 5_000
SETTLE_S = 3.0
SAMPLES_S = 1.0  # for reading the samples of a profiled trial
COUNT_S = 45.0  # a start in valgrind on a busy host (measured: 33 to 74 s)
FILLING_BYTES_PER_S = 2e6  # written by one client until the disk is full
STEADY_S = 30.0  # a warm-up until throughput is steady; it takes at least 6 s
# Factors whose levels share the loaded tables.
_OF_CLIENTS = {"test", "clients", "protocol", "rate", "arrivals", "transport", "tls"}
_SHORT_S = 2.0  # a measured time much shorter than this is noisy
# Free disk space kept for other programs and the results store.
RESERVE_BYTES = 500_000_000


@dataclass(frozen=True)
class Needs:
    """The disk needs of a server.

    ``fixed_bytes`` is the size of redo log and system tables. ``binary_log`` is true if the server
    also writes the data to a binary log or, on a replica, to a relay log. ``table_bytes`` returns
    the size of tables on disk.
    """

    fixed_bytes: int
    binary_log: bool
    table_bytes: Callable[[Volume], int]


@dataclass(frozen=True)
class Estimate:
    """The estimate of a plan.

    ``time_s`` is without downloads.
    ``least_time_s`` is the time of a sequential run that ends as early as possible.
    ``profile_s`` is the time of profiled trials, included in both.
    ``measured_share`` is the fraction of trials whose time is known from earlier trials here.
    ``peak_disk_bytes`` is the largest disk space at any time; 0 if all servers are attached.
    ``peak_treatment`` names the treatment, or the treatments of a round, that need it.
    """

    time_s: float
    least_time_s: float
    measured_share: float
    peak_disk_bytes: int
    peak_treatment: str
    host_free_bytes: int
    download_bytes: int
    profile_s: float = 0.0

    @property
    def fits(self) -> bool:
        return self.peak_disk_bytes + RESERVE_BYTES <= self.host_free_bytes


def estimate(
    plan: Plan,
    *,
    needs: Mapping[str, Sequence[Needs]],
    host_free_bytes: int,
    download_bytes: int = 0,
    measured_trial_s: Mapping[str, float] | None = None,
    measured_count_s: float | None = None,
) -> Estimate:
    """Estimate ``plan`` on a host with ``host_free_bytes`` on the disk of its instances.

    ``needs``: by treatment id, the disk needs of each server that millrace starts.
    ``measured_trial_s``: by treatment id, the mean time of earlier trials of this plan's digest.
    ``measured_count_s``: the mean time of earlier counted starts, None if there are none.
    """
    measured = measured_trial_s or {}
    largest, peak_bytes = _peak(plan, needs)
    known = sum(trial.treatment.id in measured for trial in plan.trials)
    most = FEWEST_BLOCKS if plan.experiment.sequential else plan.experiment.blocks
    fewest = [t for t in plan.trials if not is_in_measured_block(t.purpose) or t.block < most]
    return Estimate(
        time_s=expected_s(plan, plan.trials, measured, measured_count_s),
        least_time_s=expected_s(plan, fewest, measured, measured_count_s),
        measured_share=known / len(plan.trials),
        peak_disk_bytes=peak_bytes,
        peak_treatment=_labels(largest),
        host_free_bytes=host_free_bytes,
        download_bytes=download_bytes,
        profile_s=profiled_s(plan, measured),
    )


def expected_s(
    plan: Plan,
    trials: Iterable[PlannedTrial],
    measured_trial_s: Mapping[str, float],
    measured_count_s: float | None,
) -> float:
    """Return the expected time of trials of a plan, in seconds; see ``estimate``."""
    values = _values(plan)
    times = _unmeasured_trials_s(plan, values) | {**measured_trial_s}
    new = [each for each in plan.treatments if each.id not in measured_trial_s]
    once_s = sum(_snapshots_s(plan, new, values).values())
    return once_s + trials_s(trials, times, measured_count_s, profiling_extra_s(plan))


def profiled_s(plan: Plan, measured_trial_s: Mapping[str, float]) -> float:
    """Return the time of a plan's profiled trials, in s; earlier trials have loaded the tables."""
    times = _unmeasured_trials_s(plan, _values(plan)) | {**measured_trial_s}
    profiled = [trial for trial in plan.trials if trial.purpose == "profile"]
    return trials_s(profiled, times, extra_s=profiling_extra_s(plan))


def unmeasured_s(plan: Plan) -> float:
    """Return the expected time of a plan without earlier measurements, in seconds."""
    return expected_s(plan, plan.trials, {}, None)


def profiling_extra_s(plan: Plan) -> dict[str, float]:
    """Return, by treatment id, how many seconds longer a profiled trial is than a measured one.

    Negative if it is shorter. The time for reading the samples, after the trial, is included.
    """
    workload = plan.experiment.checked_workload
    found = {}
    for treatment in plan.treatments if any(t.purpose == "profile" for t in plan.trials) else ():
        values = chosen(plan.experiment, treatment)
        found[treatment.id] = SAMPLES_S
        if workload.drives:
            profiled_s = _driving_s(workload, profiled_values(plan.experiment, values))
            loops = workload.client_settings(values).loops  # a profiled trial has one
            found[treatment.id] += profiled_s / loops - _driving_s(workload, values)
    return found


def _values(plan: Plan) -> dict[str, Values]:
    return {each.id: chosen(plan.experiment, each) for each in plan.treatments}


def _unmeasured_trials_s(plan: Plan, values: Mapping[str, Values]) -> dict[str, float]:
    """Return the expected time of a trial by treatment id, in seconds."""
    workload = plan.experiment.checked_workload
    in_slices = {trial.treatment.id for trial in plan.trials if trial.slot is not None}
    shared_s = SETTLE_S / plan.experiment.treatments_at_once
    return {
        name: _trial_s(workload, of, settle_s=shared_s if name in in_slices else SETTLE_S)
        for name, of in values.items()
    }


def _peak(plan: Plan, needs: Mapping[str, Sequence[Needs]]) -> tuple[list[Treatment], int]:
    """Return the treatments of the trial or round that needs the most disk space, and the bytes."""
    values = _values(plan)
    workload = plan.experiment.checked_workload
    reads_file = any(t.resolved.get("load_mode") == "server_file" for t in plan.treatments)
    file_bytes = workload.data_bytes(plan.experiment.parameters) if reads_file else 0
    disks = {
        name: file_bytes + sum(_trial_bytes(workload, of, each) for each in needs[name])
        for name, of in values.items()
    }
    peaks = (
        ([trial.treatment for trial in trials], sum(disks[trial.treatment.id] for trial in trials))
        for trials in measured_together(plan.trials, plan.experiment.compared_factors)
    )
    return max(peaks, key=itemgetter(1))


def _labels(treatments: Sequence[Treatment]) -> str:
    """Return a name for treatments that are on the disk at the same time."""
    first, *others = (each.label for each in treatments)
    if len(others) > 1:
        return f"{first} and {len(others)} more"
    return " and ".join([first, *others])


def shortfall(plan: Plan, found: Estimate) -> str | None:
    """Return a note for the user if the time limit is probably too short for a verdict."""
    limit_s = plan.experiment.max_time_s
    if limit_s is None or found.least_time_s <= limit_s:
        return None
    held = int(limit_s / found.least_time_s * FEWEST_BLOCKS)
    room = f"only {counted(held, 'block')}" if held else "not even one block"
    time_s = float(plan.experiment.parameters.get("time_s", 0.0))
    shorter = f"a shorter time_s (now {time_s:g}), " if time_s > _SHORT_S else ""
    least = duration_in_words(found.least_time_s)
    return (
        f"the limit of {duration_in_words(limit_s)} probably leaves time for {room}; a verdict "
        f"needs {FEWEST_BLOCKS} blocks, about {least}: use {shorter}fewer levels in [factors] or a "
        "longer --max-time"
    )


def require_space(estimate: Estimate, where: str) -> None:
    """Raise HostError if the disk of ``where`` is too small for the plan's largest trial."""
    if not estimate.fits:
        sizes = (estimate.peak_disk_bytes, RESERVE_BYTES, estimate.host_free_bytes)
        peak, reserve, free = map(readable_size, sizes)
        raise HostError(
            f"the disk of {where} is too small for this experiment: {estimate.peak_treatment} needs"
            f" about {peak} and {reserve} are kept in reserve, but only {free} are free",
            hint="choose a smaller --scale, or set MILLRACE_WORK to a directory on a larger disk",
        )


def trials_s(
    trials: Iterable[PlannedTrial],
    times: Mapping[str, float],
    count_s: float | None = None,
    extra_s: Mapping[str, float] = {},
) -> float:
    """Return the sum of trials' times, in seconds.

    ``times`` has the time of a measured trial by treatment id, ``extra_s`` how much longer a
    profiled trial is, and ``count_s`` is the time of a counted trial, None if unknown.
    """

    def time_s(trial: PlannedTrial) -> float:
        if trial.purpose == "count":
            return COUNT_S if count_s is None else count_s
        measured_s = times[trial.treatment.id]
        if trial.purpose != "profile":
            return measured_s
        return max(0.0, measured_s + extra_s.get(trial.treatment.id, 0.0))

    return sum(map(time_s, trials))


def _trial_s(workload: Workload, values: Values, *, settle_s: float) -> float:
    """Return the time of a trial in seconds, without loading tables for a snapshot.

    ``settle_s`` is the trial's share of the time for servers to settle after their start.
    """
    if not workload.drives:
        filling_s = _filling_s(workload, values) if workload.fills_disk else 0.0
        return TRIAL_OVERHEAD_S + _loading_s(workload, values) + filling_s
    driving_s = settle_s + _driving_s(workload, values)
    if _loads_anew(workload, values):
        prior = workload.prior_tests(workload.values(values))
        ageing_s = sum(_driving_s(workload, {**values, "test": test}) for test in prior)
        return TRIAL_OVERHEAD_S + _loading_s(workload, values) + ageing_s + driving_s
    return RESTORED_OVERHEAD_S + driving_s


def _snapshots_s(
    plan: Plan, treatments: Iterable[Treatment], values: Mapping[str, Values]
) -> dict[str, float]:
    """Return the times, in seconds, of loading each set of tables that later trials restore."""
    workload = plan.experiment.checked_workload
    found: dict[str, float] = {}
    for treatment in treatments:
        chosen_values = values[treatment.id]
        if workload.drives and not _loads_anew(workload, chosen_values):
            of_tables = sorted(treatment.resolved.keys() - _OF_CLIENTS)
            tables = [treatment.resolved[name] for name in of_tables]
            found[str(tables)] = _loading_s(workload, chosen_values)
            clients = {name: level for name, level in treatment.resolved.items() if name != "test"}
            for test in workload.prior_tests(workload.values(chosen_values)):
                aged_s = RESTORED_OVERHEAD_S + _driving_s(workload, {**chosen_values, "test": test})
                found[str([clients, test])] = aged_s
    return found


def _loads_anew(workload: Workload, values: Values) -> bool:
    return workload.client_settings(values).snapshot == "off"


def _loading_s(workload: Workload, values: Values) -> float:
    """Return the time of loading and checking a treatment's tables, in seconds."""
    if workload.data is not None:
        loading_s = int(values["rows"]) / workload.data.rows_per_s
    else:
        loading_s = workload.volume(values).rows / TABLE_ROWS_PER_S
    return loading_s * (1 + AFTER_LOAD)


def _filling_s(workload: Workload, values: Values) -> float:
    """Return the time, in s, until the disk is full, while it is full, and until recovery."""
    every = workload.values(values)
    full_s, recovery_s = (float(every[name]) for name in ("full_s", "recovery_s"))
    return int(every["free_mb"]) * 1e6 / FILLING_BYTES_PER_S + full_s + recovery_s / 2


def _driving_s(workload: Workload, values: Values) -> float:
    """Return the time of the warm-up and the measured part, in seconds."""
    settings = workload.client_settings(values)
    measured_s = settings.time_s
    if settings.operations:
        test = workload.tests[str(workload.values(values)["test"])].model_extra or {}
        of_transaction = n_statements(workload.statements, test)
        transactions_per_s = STATEMENTS_PER_S / max(1, of_transaction)
        measured_s = settings.operations / (settings.rate or transactions_per_s)
    warmup_s = STEADY_S if settings.warmup == "steady" else settings.warmup_s
    return (warmup_s + measured_s) * settings.loops


def _trial_bytes(workload: Workload, values: Values, needs: Needs) -> int:
    data_bytes = workload.data_bytes(values)
    binary_log = 2 * data_bytes if needs.binary_log else 0
    if workload.data is not None:
        rows = int(values["rows"])
        table = workload.data.table_bytes(rows, str(workload.values(values).get("engine", "")))
        return needs.fixed_bytes + table + rows * UNDO_ROW_BYTES + binary_log
    volume = workload.volume(values)
    undo = volume.rows * UNDO_ROW_BYTES
    return needs.fixed_bytes + needs.table_bytes(volume) + undo + binary_log
