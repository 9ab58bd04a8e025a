"""Execute a round: the trials of a group in a block, whose servers take turns in slices.

The servers are prepared one after another, as for trials of their own. Once all are up, one load
generator drives or loads one of them at a time, and changes every few milliseconds. The trials
count together or not at all, because each has its share of the same time.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path

from millrace.collect import thread_states
from millrace.databases.base import ServerClient
from millrace.errors import MillraceError, TrialFailed
from millrace.loadgen.client import LoadFailed
from millrace.loadgen.events import LoadResult
from millrace.loadgen.spec import Drive, LoadData, LoadSpec, Slices, SpecPhase
from millrace.loadgen.statement_activity import StatementActivity
from millrace.model import measurements as names
from millrace.model.events import StepBegan
from millrace.quantities import readable_size
from millrace.store.records import ROUND_FAILED, AttemptResult, StepRecord
from millrace.trial import (
    collection,
    cpu_idle_hook,
    edge_readings,
    fault_injection,
    measure,
    phase_spec,
    thread_placement,
    time_limits,
)
from millrace.trial.client_preparation import ClientPreparation
from millrace.trial.execute import (
    attempt_result,
    checking_steps,
    servers_of,
    started_steps,
    warming_steps,
    write_back_step,
)
from millrace.trial.hooks import LiveServer, MeasurementContext, MeasurementHook, OpenHooks
from millrace.trial.load_run import Emit, OnEvent, run_load
from millrace.trial.outputs import TrialOutputs
from millrace.trial.slices import SideResult, by_side, given_up, loads_by_side
from millrace.trial.spec import TrialSpec
from millrace.trial.steps import Step, StepsOutcome, execute_steps
from millrace.trial.trial_server import TrialContext, TrialServer

_SLICE_S = 0.005
# Of the time of a server in the round, so that slow transactions leave several groups of slices.
_MOST_OF_TIME = 0.1
# Of each of several clients in a slice, at whose end all wait for the last one.
_FEWEST_TRANSACTIONS = 20
_SLICE_ROWS = 2_000  # about 5 to 15 ms

_HOOKS: tuple[OpenHooks, ...] = (
    edge_readings.host_time_hooks,
    edge_readings.cpu_hooks,
    edge_readings.read_hooks,
    edge_readings.counter_hooks,
    thread_placement.hooks,
    collection.hooks,
    cpu_idle_hook.hooks,
)
"""Hooks around each side's measurement, in the order in which they act."""

# Of the buffer pool, after a load: more, and pages of the table had to be written to make room.
_FULLEST = 0.9
# Of a server whose clients write for 4 seconds or less.
_MOST_READ_BYTES, _MOST_UNLIKE_BYTES, _READING_S = 500_000, 300_000, 4.0


@dataclass(frozen=True)
class RoundTrial:
    """One trial of a round, with its label in messages and the listener of its events."""

    spec: TrialSpec
    label: str
    emit: Emit


def joined(
    trials: Sequence[RoundTrial],
    results: Sequence[AttemptResult | None],
    *,
    unprepared: Collection[int] = (),
) -> tuple[AttemptResult, ...]:
    """Return the results of a round's trials; where one failed, those that did not are left out.

    A result is None where the round ended before the trial's first step. Those ``unprepared``, by
    number, failed before the others were measured, which therefore count.
    """
    causes = [
        (trial, result)
        for number, (trial, result) in enumerate(zip(trials, results, strict=True))
        if result is not None and result.outcome == "failed" and number not in unprepared
    ]
    if not causes:
        return tuple(filter(None, results))
    trial, cause = causes[0]
    first_line = str(cause.reason).partition("\n")[0]
    failed = f"the other trial of the round, {trial.label}, failed at step {cause.failed_step}"
    left_out = AttemptResult("failed", failed_step=ROUND_FAILED, reason=f"{failed}: {first_line}")
    return tuple(
        left_out
        if result is None
        else result
        if result.outcome == "failed"
        else replace(
            result, outcome="failed", failed_step=left_out.failed_step, reason=left_out.reason
        )
        for result in results
    )


def execute_round(
    trials: Sequence[RoundTrial], base: int, checked: Callable[[AttemptResult], AttemptResult]
) -> tuple[AttemptResult, ...]:
    """Execute the trials of a round; all are compared with the one of number ``base``.

    A server that cannot be prepared fails alone, unless it is the base or only the base is left. Of
    the others all finish, or none counts. ``checked`` may refuse a result. Raise Interrupted, after
    everything was closed, when the user stops the run.
    """
    with ExitStack() as opened:
        sides = [_Side(trial, _context(trial, opened)) for trial in trials]
        ready = _prepared(sides, base)
        if ready and _settle(ready) and _measure(ready, ready.index(sides[base])):
            for side in reversed(ready):
                side.end()
        results = [side.result() for side in sides]
    unprepared = [number for number, side in enumerate(sides) if side not in ready] if ready else ()
    checked_results = [None if each is None else checked(each) for each in results]
    return joined(trials, checked_results, unprepared=unprepared)


def _context(trial: RoundTrial, opened: ExitStack) -> TrialContext:
    own = opened.enter_context(ExitStack())  # so that a side can be closed before the others
    return TrialContext(trial.spec, TrialOutputs(), own, trial.emit)


@dataclass
class _Side:
    """One trial of a round and what it has done so far."""

    trial: RoundTrial
    context: TrialContext
    servers: list[TrialServer] = field(default_factory=list)
    preparations: list[ClientPreparation] = field(default_factory=list)
    loaded: list[LiveServer] = field(default_factory=list)
    steps: tuple[StepRecord, ...] = ()
    failed: str | None = None
    cause: Exception | None = None
    closed: AttemptResult | None = None

    @property
    def live(self) -> list[LiveServer]:
        """The running servers, the driven or loaded one first."""
        return self.loaded or [each.prepared() for each in self.preparations]

    def prepare(self) -> bool:
        """Prepare the server; return whether it only has to settle."""
        self.servers = servers_of(self.context)
        return self.execute(self._steps_before())

    def end(self) -> bool:
        """Check and end the server; return whether it ended as it should."""
        ends = (step for server in reversed(self.servers) for step in server.end_steps())
        return self.execute(chain(checking_steps(self.trial.spec.workload, self.live[0]), ends))

    def result(self) -> AttemptResult | None:
        """Return the outcome of the steps so far, None before the first.

        A side that another one cut off looks finished here; ``joined`` leaves it out.
        """
        if self.closed is not None or not self.steps:
            return self.closed
        ended = StepsOutcome(self.steps, self.failed, self.cause)
        return attempt_result(self.context.outputs, ended)

    def close(self) -> None:
        """Close what failed: its server would work while the others are measured."""
        self.closed = self.result()
        self.context.opened.close()

    def add(self, ended: StepsOutcome, *, after_s: float = 0.0) -> None:
        """Add steps, ``after_s`` after those before; their times are without those of others."""
        before_s = _end_s(self.steps) + after_s
        count = len(self.steps)
        self.steps += tuple(
            replace(step, position=count + step.position, started_s=before_s + step.started_s)
            for step in ended.steps
        )
        self.failed, self.cause = ended.failed, ended.cause

    def begin(self, step: str) -> None:
        """Tell that a step has begun."""
        self.trial.emit(StepBegan(name=step))

    def execute(self, steps: Iterable[Step]) -> bool:
        """Execute steps; return whether none failed."""
        ended = execute_steps(steps, self.begin)
        self.add(ended)
        return ended.cause is None

    def _steps_before(self) -> Iterable[Step]:
        if self.trial.spec.workload.drives:
            self.preparations = yield from warming_steps(self.context, self.servers)
        else:
            self.loaded = yield from started_steps(self.servers)


def _prepared(sides: Sequence[_Side], base: int) -> list[_Side]:
    """Prepare the servers; return those that can be measured together, none without the base."""
    ready: list[_Side] = []
    for side in sides:
        if side.prepare():
            ready.append(side)
        elif side is sides[base]:
            return []
        else:
            side.close()
    return ready if len(ready) > 1 else []


def _settle(sides: Sequence[_Side]) -> bool:
    """Wait for all servers at the same time; return whether they may be measured."""
    if not sides[0].trial.spec.workload.drives:
        return all(side.execute([write_back_step(side.live[0])]) for side in sides)
    pool = ThreadPoolExecutor(max_workers=len(sides))

    def started(preparation: ClientPreparation) -> Step:
        """Begin to settle now; the returned step only waits for it."""
        step = preparation.settling_step()
        settled = pool.submit(step.action, step.limit_s)
        return replace(step, action=lambda _limit_s: settled.result())

    try:
        steps = [list(map(started, side.preparations)) for side in sides]
        return all(side.execute(each) for side, each in zip(sides, steps, strict=True))
    finally:
        pool.shutdown(wait=False)  # the end of its server ends a thread that still waits


def _measure(sides: Sequence[_Side], base: int) -> bool:
    """Drive or load all sides; return whether that counts."""
    workload = sides[0].trial.spec.workload
    limit_s = len(sides) * time_limits.limit_s(workload.measuring_phases, workload)
    measurements: list[_SideMeasurement] = []

    def begin(name: str) -> None:
        for side in sides:
            side.begin(name)

    with ExitStack() as opened:

        def run(_limit_s: float) -> None:
            measurements.extend(_measure_in_slices(sides, base, opened, limit_s))

        together = Step("measure", run, limit_s + collection.RESULT_LIMIT_S)
        began = time.monotonic()
        ended = execute_steps([together], begin)
        if ended.cause is not None:
            at_fault = _at_fault(sides, ended.cause)
            share = [replace(s, duration_s=s.duration_s / len(at_fault)) for s in ended.steps]
            result = ended.cause.result if isinstance(ended.cause, LoadFailed) else None
            if result is not None and len(at_fault) == 1:
                for name, value in given_up(result, base).items():
                    at_fault[0].context.outputs.add_measurement(name, value)
            for side in at_fault:
                side.add(replace(ended, steps=tuple(share)))
            return False
        conclusions = [
            Step("measure", partial(_conclude, side, measurement), collection.RESULT_LIMIT_S)
            for side, measurement in zip(sides, measurements, strict=True)
        ]
        concluded = [execute_steps([each], lambda _name: None) for each in conclusions]
    # The start of the load generator, its connections, and what hooks did: time of all sides.
    rest_s = time.monotonic() - began - sum(_end_s(each.steps) for each in concluded)
    for side, each in zip(sides, concluded, strict=True):
        side.add(each, after_s=max(0.0, rest_s / len(sides)))
    return all(side.cause is None for side in sides) and _disk_reads_are_even(sides)


def _end_s(steps: Sequence[StepRecord]) -> float:
    """Return when the last step ended, in s from the start of the first; 0 without steps."""
    return steps[-1].started_s + steps[-1].duration_s if steps else 0.0


def _disk_reads_are_even(sides: Sequence[_Side]) -> bool:
    """Fail the side that read much more from the disk than another; return whether none did.

    Of writes of 4 seconds, each megabyte that one server reads more makes it about 0.8 % slower; of
    longer ones, less. Clients that only read have the bound of ``buffer_pool``, by the share of
    their requests.
    """
    workload = sides[0].trial.spec.workload
    if not workload.writes:
        return True
    longer = max(1.0, workload.client_settings.time_s / _READING_S)
    read = [side.context.outputs.measured(names.SERVER_READ_BYTES) or 0.0 for side in sides]
    most = max(read)
    if most < longer * _MOST_READ_BYTES or most - min(read) < longer * _MOST_UNLIKE_BYTES:
        return True

    def refuse(_limit_s: float) -> None:
        raise TrialFailed(
            f"the server read {readable_size(int(most))} from the disk meanwhile, and another one "
            f"of the round {readable_size(int(min(read)))}",
            hint="more memory for the page cache, or --interleaved",
        )

    side = sides[read.index(most)]
    return side.execute([Step("measure", refuse, collection.RESULT_LIMIT_S)])


@dataclass(frozen=True)
class _SideMeasurement:
    """The measurement of a side: its hooks are still open; ``part`` is its part of the result."""

    context: MeasurementContext
    hooks: Sequence[MeasurementHook]
    part: SideResult


def _measure_in_slices(
    sides: Sequence[_Side], base: int, opened: ExitStack, limit_s: float
) -> Iterable[_SideMeasurement]:
    """Drive or load all sides in slices."""
    specs, workload = [side.trial.spec for side in sides], sides[0].trial.spec.workload
    activity = None
    if workload.drives and thread_states.NAME in specs[0].collectors:
        activity = opened.enter_context(StatementActivity.create()).path
    load_spec = round_load_spec(specs, [side.live[0] for side in sides], activity)
    contexts = [
        MeasurementContext(
            spec=side.trial.spec,
            servers=tuple(side.live),
            load_spec=load_spec,
            window=collection.window(workload),
            outputs=side.context.outputs,
        )
        for side in sides
    ]
    # Those of a kind follow each other: the last server's CPU time is read right after the first's.
    of_sides = [
        (number, hook)
        for open_hooks in _HOOKS
        for number, context in enumerate(contexts)
        for hook in open_hooks(context, opened)
    ]

    def check() -> None:
        for number, context in enumerate(contexts):
            try:
                context.check()
            except TrialFailed as failure:
                failure.side = number  # a second check may not find it: a log is read once
                raise

    def run(adjusted: LoadSpec, on_event: OnEvent) -> LoadResult:
        emit, drives = sides[0].trial.emit, workload.drives
        return run_load(adjusted, check, emit, limit_s, on_event, drives=drives)

    result = measure.run_with_hooks([hook for _, hook in of_sides], load_spec, run)
    parts = (
        by_side(result, len(sides), base)
        if workload.drives
        else loads_by_side(result, len(sides), base, workload.checked.measured.timed)
    )
    return [
        _SideMeasurement(contexts[number], [hook for of, hook in of_sides if of == number], part)
        for number, part in enumerate(parts)
    ]


def _conclude(side: _Side, measurement: _SideMeasurement, _limit_s: float) -> Sequence[StepRecord]:
    """Keep a side's figures and return its steps. Raise TrialFailed where they do not count."""
    outputs, part = side.context.outputs, measurement.part
    outputs.add_measurement(names.trimmed_s(part.phase), part.trimmed_s)
    outputs.add_measurement(names.SLICES, part.slices)
    outputs.add_measurement(names.ROUND_S, part.round_s)
    phase = part.result.driven()
    if phase is not None and part.rested_share:
        outputs.add_measurement(names.SLOWDOWN_WINDOW_S, phase.duration_s)
        outputs.add_measurement(names.SLOWDOWN_STOPPED_S, phase.duration_s * part.rested_share)
    if not side.trial.spec.workload.drives:
        _require_room(side.live[0].client)
    return measure.conclude(measurement.context, measurement.hooks, part.result)


def _require_room(client: ServerClient) -> None:
    """Raise TrialFailed where a load filled the buffer pool, so that it wrote pages meanwhile.

    Not all pages that the load made are still there: servers write and evict some to keep others
    free.
    """
    pool = client.family.storage.pool_status(client)
    filled = max(pool.data_bytes, pool.created_bytes)
    if filled > _FULLEST * pool.total_bytes:
        raise TrialFailed(
            f"the load filled {readable_size(filled)} of the buffer pool's "
            f"{readable_size(pool.total_bytes)}: it wrote pages in the slices of the others",
            hint=f"a larger {client.family.storage.pool_option}, or --interleaved",
        )


def _at_fault(sides: Sequence[_Side], cause: Exception) -> Sequence[_Side]:
    """Return the sides whose servers are in trouble, else that of the cause; all if unknown."""
    of_cause = cause.side if isinstance(cause, TrialFailed) else None
    troubled = [side for side in sides if _is_in_trouble(side)]
    return troubled or [side for n, side in enumerate(sides) if n == of_cause] or sides


def _is_in_trouble(side: _Side) -> bool:
    try:
        for server in side.live:
            server.check()
    except MillraceError:
        return True
    return False


def round_load_spec(
    specs: Sequence[TrialSpec], servers: Sequence[LiveServer], activity: Path | None
) -> LoadSpec:
    """Return the specification that drives or loads all servers, each for its time.

    Clients publish their statements in the file ``activity``.
    """
    workload, first = specs[0].workload, servers[0]
    alone = phase_spec.load_spec(
        workload.measuring_phases, workload, first.dialect, first.measured_connection
    )
    for_turns = () if workload.drives else first.dialect.no_read_timeout
    return replace(
        alone,
        session=(*alone.session, *for_turns),
        phases=tuple(_of_all(phase, specs, activity) for phase in alone.phases),
        against=tuple(server.measured_connection for server in servers[1:]),
    )


def _of_all(phase: SpecPhase, specs: Sequence[TrialSpec], activity: Path | None) -> SpecPhase:
    """Return a phase for all servers, in which they take turns."""
    together = replace(phase, limit_s=len(specs) * phase.limit_s)
    match together:
        case LoadData():
            return replace(together, slice_rows=_SLICE_ROWS)
        case Drive(time_s=time_s, clients=clients):
            assert time_s is not None  # checked: see millrace.experiment.rounds
            return replace(
                together,
                warmup_s=len(specs) * together.warmup_s,
                time_s=len(specs) * time_s,
                statement_activity=activity,
                slices=Slices(
                    _SLICE_S,
                    max(_SLICE_S, _MOST_OF_TIME * time_s),
                    _FEWEST_TRANSACTIONS * clients if clients > 1 else 1,
                    tuple(map(fault_injection.slowdown_in_slices, specs)),
                ),
            )
    return together
