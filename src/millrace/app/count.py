"""Count instructions: start each server of an experiment several times in callgrind, and compare.

Instructions are counted one by one, so neither speed nor other work of the host changes them. What
remains is the server's own: where its memory lies, and what its heap has been through. Starts
differ in these, and only their spread is an error.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from millrace.analysis.counts.compare_counts import compare_counts
from millrace.analysis.counts.model import CountGroup
from millrace.app.execution import Caller
from millrace.app.servers import exclusive_host
from millrace.campaign.forecast import forecast_here, refuse_without_space
from millrace.campaign.inputs import PreparedTreatment
from millrace.campaign.preparation import refuse_missing_cpus, run_input
from millrace.errors import TrialFailed, UserError
from millrace.experiment.model import COUNTED_STARTS, Experiment, Plan, Treatment
from millrace.experiment.plan import distinct_but_for_clients, expand, seed_of
from millrace.host import valgrind
from millrace.host.valgrind import Valgrind
from millrace.levels import CLIENTS, Level, without_clients
from millrace.model.events import Notice, OnEvent
from millrace.model.instruction_counts import MOST_FAILED, CountedStart, TreatmentStarts
from millrace.trial import counting
from millrace.trial.count_extent import Extent, extent_of
from millrace.trial.spec import TrialSpec


@dataclass(frozen=True)
class CountReport:
    """The counts of an experiment; ``valgrind`` is the version that counted."""

    experiment: Experiment
    command: str
    valgrind: str
    starts: int
    groups: tuple[CountGroup, ...]


def count(experiment: Experiment, caller: Caller, *, starts: int = COUNTED_STARTS) -> CountReport:
    """Count the instructions of an experiment's statements on each of its servers.

    Clients are one at a time, whatever the experiment says. Raise PermanentHostError without
    valgrind, UserError for an experiment without statements to count, and Interrupted when the user
    stops.
    """
    program = valgrind.find()
    alone = _alone(experiment)
    plan = _plan(alone)
    with ExitStack() as stack:
        stack.enter_context(exclusive_host(f"count {experiment.name}", caller.on_event))
        refuse_missing_cpus(alone)
        refuse_without_space(forecast_here(plan, None))
        prepared = run_input(stack, plan, None, caller.on_event).treatments
        for treatment in plan.treatments:
            _refuse(experiment, treatment, prepared[treatment.id])
        run = _Counting(plan, prepared, program, starts, caller.on_event)
        found = run.count()
    compare = experiment.compare
    return CountReport(
        experiment=experiment,
        command=caller.command,
        valgrind=program.version,
        starts=starts,
        groups=compare_counts(found, compare.factor, compare.base),
    )


def comparisons(experiment: Experiment) -> int:
    """Return the number of comparisons that a count of the experiment has."""
    compare = experiment.compare
    treatments = _plan(_alone(experiment)).treatments
    return sum(each.levels[compare.factor] != compare.base for each in treatments)


def _alone(experiment: Experiment) -> Experiment:
    """Return the experiment with one server on the host at a time."""
    return replace(
        experiment, slices=False, requires_slices=False, profile_blocks=0, counted_starts=0
    )


def _plan(experiment: Experiment) -> Plan:
    """Return the plan with one treatment of those that differ in their number of clients."""
    plan = expand(experiment, seed=seed_of(experiment))
    if experiment.compare.factor == CLIENTS:
        raise UserError(
            f"{experiment.source} compares numbers of clients: a client's statements have the "
            "same instructions whatever other clients do",
            hint="compare servers or options",
        )
    kept = distinct_but_for_clients(plan.treatments)
    of_kept = plan.only(trial for trial in plan.trials if trial.treatment in kept)
    return replace(of_kept, treatments=kept)


def _refuse(experiment: Experiment, treatment: Treatment, prepared: PreparedTreatment) -> None:
    """Raise UserError for a treatment whose instructions cannot be counted."""
    why = counting.refusal(_trial_spec(treatment, prepared))
    if why is not None:
        raise UserError(
            f"{experiment.source}: {treatment.label}: {why}",
            hint="count servers that millrace starts, with a workload that drives clients on "
            'tables of a lasting engine, with snapshot = "on"',
        )


def _trial_spec(treatment: Treatment, prepared: PreparedTreatment) -> TrialSpec:
    return TrialSpec(treatment.id, prepared.servers, prepared.workload, stops_cleanly=False)


@dataclass
class _Counting:
    """The counting of a plan's treatments."""

    plan: Plan
    prepared: Mapping[str, PreparedTreatment]
    valgrind: Valgrind
    starts: int
    on_event: OnEvent

    def count(self) -> tuple[TreatmentStarts, ...]:
        """Start each treatment's server in turn, again and again; return all counts."""
        found: dict[str, list[CountedStart]] = {each.id: [] for each in self.plan.treatments}
        failures: defaultdict[str, list[str]] = defaultdict(list)
        extents: dict[tuple[tuple[str, Level], ...], Extent | None] = {}
        for number in range(self.starts):
            for treatment in self.plan.treatments:
                if len(failures[treatment.id]) > MOST_FAILED:
                    continue
                self._announce(number, treatment)
                fixed = tuple(self._fixed(treatment))
                try:
                    start = self._start_again(treatment, extents.get(fixed))
                except TrialFailed as failure:
                    failures[treatment.id].append(failure.message)
                    self.on_event(Notice(f"{_label(treatment)}: {failure.message}"))
                    continue
                extents.setdefault(fixed, extent_of(start.transactions))
                found[treatment.id].append(start)
        return tuple(
            TreatmentStarts(
                levels=without_clients(each.levels),
                starts=tuple(found[each.id]),
                program=counting.program_of(_trial_spec(each, self.prepared[each.id])),
                failure=next(iter(failures[each.id]), None),
                failed=len(failures[each.id]),
            )
            for each in self.plan.treatments
        )

    def _start_again(self, treatment: Treatment, extent: Extent | None) -> CountedStart:
        """Start a server; once more where that fails, as it may on a busy host."""
        try:
            return self._start(treatment, extent)
        except TrialFailed as failure:
            again = f"{_label(treatment)}: {failure.message}; it is started once more"
            self.on_event(Notice(again))
            return self._start(treatment, extent)

    def _start(self, treatment: Treatment, extent: Extent | None) -> CountedStart:
        spec = _trial_spec(treatment, self.prepared[treatment.id])
        return counting.count(spec, self.valgrind, extent, lambda _event: None)

    def _fixed(self, treatment: Treatment) -> Iterator[tuple[str, Level]]:
        """Yield the levels that a treatment shares with those that it is compared with."""
        compared = self.plan.experiment.compare.factor
        return (each for each in without_clients(treatment.levels).items() if each[0] != compared)

    def _announce(self, number: int, treatment: Treatment) -> None:
        self.on_event(Notice(f"start {number + 1} of {self.starts}: {_label(treatment)}"))


def _label(treatment: Treatment) -> str:
    return replace(treatment, levels=without_clients(treatment.levels)).label
