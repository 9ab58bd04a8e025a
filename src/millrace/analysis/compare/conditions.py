"""Conditions besides the servers that may have shaped a run's figures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from millrace.model import measurements
from millrace.model.phases import MeasuredPhases
from millrace.stats.mean import complete_sum
from millrace.stats.ratio import Looks
from millrace.store.records import RunRecord, StoredAttempt, StoredRun


@dataclass(frozen=True)
class DriveConditions:
    """The conditions under which a treatment's clients were driven, over its finished trials.

    ``unsettled`` of ``trials`` began to measure before all was written back, within a limit of
    ``longest_settle_s``; ``unsettled_why`` says what went on in the first. ``missed`` is the share
    of page reads that the buffer pool could not serve, ``reads`` counts trials by what the runner
    made of theirs (cached, io_bound, between; any where it does not matter), and ``between_why``
    has the figures of the first that was a bit of both. ``unsteady`` trials began to measure though
    they were to warm up until throughput was steady. ``not_kept`` trials loaded their tables
    themselves, since no snapshot could be kept, as ``not_kept_why`` says. ``snapshots_saved_s`` is
    what restoring instead of loading saved in all. CPU times are of the measured part, a
    transaction; ``client_share`` is the load generator's share of the CPUs that the trials had.
    None where it was not measured.
    """

    trials: int
    unsettled: int
    longest_settle_s: float | None
    unsettled_why: str | None
    missed: float | None
    reads: Mapping[str, int]
    between_why: str | None
    unsteady: int
    not_kept: int
    not_kept_why: str | None
    snapshots_saved_s: float | None
    client_s: float | None
    server_s: float | None
    client_switches: float | None
    client_share: float | None


@dataclass(frozen=True)
class DisturbedBlocks:
    """The ``blocks`` of a run, of ``measured``, in which the host disturbed an interleaved trial.

    ``by`` are the disturbances, a clause each; empty where no block was disturbed.
    """

    blocks: int
    measured: int
    by: tuple[str, ...]


def drive_conditions(finished: Sequence[StoredAttempt], run: RunRecord) -> DriveConditions | None:
    """Sum up the conditions of finished trials; None where no trial drove clients."""
    driven = [a for a in finished if measurements.TRANSACTIONS in a.measured]
    if not driven:
        return None
    client_s = _sum(
        driven, measurements.LOAD_GENERATOR_USER_S, measurements.LOAD_GENERATOR_SYSTEM_S
    )
    cpu_s = (_sum(driven, *run.phases.durations) or 0.0) * (trial_cpus(run) or 0.0)
    transactions = _sum(driven, measurements.TRANSACTIONS)
    switches = _sum(
        driven,
        measurements.LOAD_GENERATOR_VOLUNTARY_SWITCHES,
        measurements.LOAD_GENERATOR_INVOLUNTARY_SWITCHES,
    )
    server_s = _sum(driven, measurements.SERVER_USER_S, measurements.SERVER_SYSTEM_S)
    unsettled = [each for each in driven if each.measured.get(measurements.SETTLED) == 0]
    between = [attempt for attempt in driven if attempt.facts.residency == "between"]
    not_kept = [why for a in driven if (why := a.facts.snapshot_not_kept)]
    measured = [attempt.measured for attempt in driven]
    settle_s = [s for of in measured if (s := of.get(measurements.SETTLE_DURATION_S)) is not None]
    return DriveConditions(
        trials=len(driven),
        unsettled=len(unsettled),
        longest_settle_s=max(settle_s, default=None),
        unsettled_why=", ".join(unsettled[0].facts.unsettled or ()) or None if unsettled else None,
        missed=_ratio(
            _sum(driven, measurements.BUFFER_POOL_READS),
            _sum(driven, measurements.BUFFER_POOL_READ_REQUESTS),
        ),
        reads=dict(Counter(read for a in driven if (read := a.facts.residency))),
        between_why=between[0].facts.residency_why if between else None,
        unsteady=sum(of.get(measurements.WARMUP_STEADY) == 0 for of in measured),
        not_kept=len(not_kept),
        not_kept_why=not_kept[0] if not_kept else None,
        snapshots_saved_s=_saved(driven),
        client_s=_ratio(client_s, transactions),
        server_s=_ratio(server_s, transactions),
        client_switches=_ratio(switches, transactions),
        client_share=_ratio(client_s, cpu_s),
    )


def trial_cpus(run: RunRecord) -> float | None:
    """Return the host's logical CPUs, None where its facts do not include them."""
    threads = run.host.facts.cpu.threads
    return threads if threads is not None and threads > 0 else None


def _saved(driven: Sequence[StoredAttempt]) -> float | None:
    saved = [
        made_s - restored_s
        for of in (attempt.measured for attempt in driven)
        if (made_s := of.get(measurements.SNAPSHOT_SAVED_S)) is not None
        and (restored_s := of.get(measurements.SNAPSHOT_RESTORE_S)) is not None
    ]
    return sum(saved) if saved else None


def _sum(attempts: Sequence[StoredAttempt], *names: str) -> float | None:
    """Return the sum of measurements that every attempt has; None where one lacks any."""
    return complete_sum(attempt.measured.get(name) for attempt in attempts for name in names)


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


def generator_wait(finished: Sequence[StoredAttempt], phases: MeasuredPhases) -> float | None:
    """Return the fraction of the load in which the sender waited for rows, if measured."""
    waited_s = load_s = 0.0
    for attempt in finished:
        for phase in phases.loading:
            wait = attempt.measured.get(measurements.row_wait_s(phase))
            load = attempt.measured.get(measurements.duration_s(phase))
            if wait is not None and load is not None:
                waited_s += wait
                load_s += load
    return waited_s / load_s if load_s > 0 else None


def load_warnings(finished: Sequence[StoredAttempt], phases: MeasuredPhases) -> float | None:
    """Return the mean number of warnings of a load; None where no trial counted them."""
    names = tuple(map(measurements.warnings, phases.loading))
    counts = [count for each in finished if names and (count := _sum([each], *names)) is not None]
    return fmean(counts) if counts else None


def blocks_at_extensions(stored: StoredRun) -> tuple[int, ...]:
    """Return the numbers of blocks that had a result when more were added; mostly none."""
    ended = [
        (datetime.fromisoformat(attempt.ended_utc), attempt.trial_id)
        for attempt in stored.attempts
        if attempt.ended_utc is not None and attempt.outcome in ("finished", "failed")
    ]
    blocks = {trial.id: trial.block for trial in stored.trials}
    seen = []
    for extension in stored.run.spec.extensions or ():
        added = datetime.fromisoformat(extension.utc)
        seen.append(len({blocks[trial_id] for when, trial_id in ended if when <= added}))
    return tuple(dict.fromkeys(number for number in seen if number))  # of 0 blocks: no look


def retried(stored: StoredRun) -> int:
    """Return the number of failed trials whose retry finished after all trials had ended."""
    first: dict[str, StoredAttempt] = {}
    for attempt in sorted(stored.attempts, key=lambda each: each.number):
        if attempt.ended_utc is not None and attempt.outcome in ("finished", "failed"):
            first.setdefault(attempt.trial_id, attempt)
    if any(trial.id not in first for trial in stored.trials):
        return 0
    over_utc = max((each.ended_utc or "" for each in first.values()), default="")
    return sum(
        attempt.outcome == "finished"
        and attempt.number > first[trial_id].number
        and attempt.started_utc >= over_utc
        for trial_id, attempt in stored.last_attempts().items()
    )


def holds_for(stored: StoredRun) -> Looks:
    """Return the looks for which the intervals of a run hold, by its trials of purpose ``measure``.

    One look, where the number of blocks was fixed before the first result, all of them are over,
    and none was retried after that. Otherwise any, since results may decide whether there are more.
    """
    design = stored.run.design
    is_as_fixed = design.kind == "fixed" and design.blocks == stored.run.blocks
    last = stored.last_attempts()
    is_over = all(trial.id in last for trial in stored.trials)
    looked_before = blocks_at_extensions(stored) or retried(stored)
    return "once" if is_as_fixed and is_over and not looked_before else "any"


def disturbed_blocks(stored: StoredRun) -> DisturbedBlocks:
    """Return the blocks with a trial of purpose ``measure`` that the host disturbed.

    Slices do not count: what disturbs a round meets all of its servers alike, and cancels.
    """
    last = stored.last_attempts()
    found: dict[int, list[str]] = {}
    for trial in stored.trials:
        attempt = last.get(trial.id)
        if (
            trial.purpose == "measure"
            and attempt is not None
            and attempt.outcome == "finished"
            and measurements.SLICES not in attempt.measured
        ):
            host = attempt.observations.host
            found.setdefault(trial.block, []).extend((host and host.disturbed) or ())
    blocks = sum(bool(clauses) for clauses in found.values())
    by = tuple(clause for clauses in found.values() for clause in clauses)
    return DisturbedBlocks(blocks, len(found), by)
