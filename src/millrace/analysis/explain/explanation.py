"""Explain the difference between two treatments by all observations of both."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from millrace.analysis import variables
from millrace.analysis.compare import comparability
from millrace.analysis.counts.compare_counts import compare_stored
from millrace.analysis.counts.model import CountComparison
from millrace.analysis.explain import profiles
from millrace.analysis.explain.ablation import Ablation, ablation, is_ablation_of, with_answers
from millrace.analysis.explain.blocking_stacks import BlockedComparison, compare_blocked
from millrace.analysis.explain.causes import ranking
from millrace.analysis.explain.causes.evidence import (
    Evidence,
    SideEvidence,
    StatementKind,
    kinds_of_statements,
)
from millrace.analysis.explain.causes.known import is_known
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.decode_observations import observed_trials
from millrace.analysis.explain.efficiency import EfficiencyRow, compare_efficiency
from millrace.analysis.explain.observations import Noun, ObservedTrial
from millrace.analysis.explain.plans import PlanComparison, compare_plans
from millrace.analysis.explain.statement_breakdown import (
    StatementBreakdown,
    StatementBreakdownDifference,
    statement_breakdown_differences,
    statement_breakdowns,
)
from millrace.analysis.explain.statements import OWN, StatementComparison, compare_statements
from millrace.analysis.explain.time_breakdown import (
    BreakdownDifference,
    TimeBreakdown,
    breakdown_difference,
    time_breakdown,
)
from millrace.analysis.explain.waits import (
    Coverage,
    DigestComparison,
    WaitComparison,
    compare_digests,
    compare_stages,
    compare_waits,
    coverage,
)
from millrace.analysis.variables import VariablesDiff
from millrace.errors import UserError
from millrace.levels import Level, level_text, split_role
from millrace.model.roles import MEASURED
from millrace.model.trials import Purpose
from millrace.shown_text import shown_line
from millrace.stats.ratio import RatioEstimate
from millrace.store.records import (
    InstanceRecord,
    RunRecord,
    StoredAttempt,
    StoredRun,
    TreatmentRecord,
)

Side = Literal["A", "B"]


@dataclass(frozen=True)
class Disturbance:
    """A disturbance of the host in one trial, in a clause; ``block`` counts from 0."""

    side: Side
    block: int
    profiled: bool
    clause: str


@dataclass(frozen=True)
class MissingObservation:
    """An observation that ``trials`` of a side's trials lack, and a hint."""

    side: Side
    observer: str
    what: str
    hint: str
    trials: int


@dataclass(frozen=True)
class SideExplanation:
    """One of the two treatments: its trials that were measured and those that were profiled.

    ``breakdown`` and ``coverage`` are None where too little was observed, and
    ``statement_breakdowns`` empty, as where an operation has one statement alone. ``instance`` is
    the server as its last trial recorded it; ``flat`` its profile, if it has one. ``waiting`` of
    its trials have no result yet; ``failed`` ended in an error, the first as ``first_failure``
    says.
    """

    label: str
    level: Level
    levels: Mapping[str, Level]
    trials: tuple[ObservedTrial, ...]
    profiled: tuple[ObservedTrial, ...]
    breakdown: TimeBreakdown | None
    statement_breakdowns: tuple[StatementBreakdown, ...]
    coverage: Coverage | None
    flat: profiles.FlatProfile | None
    instance: InstanceRecord | None
    waiting: int
    failed: int
    first_failure: str

    @property
    def blocks(self) -> set[int]:
        """Return the numbers of the blocks in which it was measured or profiled, from 1."""
        return {trial.block + 1 for trial in (*self.trials, *self.profiled)}


@dataclass(frozen=True)
class Explanation:
    """The base (A) and a candidate (B) of one group; all differences are B - A.

    ``group`` are the shared levels of factors that have several. ``unequal`` says in which way the
    two did not do the same work, and is empty where they did. ``differences`` and ``profile`` are
    None where no block has both, ``instructions`` where neither was counted,
    ``statement_breakdown_differences`` empty where an operation has
    one statement or nobody looked. ``why_no_likely_causes`` is a sentence where the times
    show none although both have a breakdown; facts may be among the causes all the same.
    ``latency_ratio`` is B / A as a verdict has it. ``ablation`` is the newest measurement of the
    causes.
    """

    run: RunRecord
    factor: str
    group: str
    fixed_factors: Mapping[str, Level]
    noun: Noun
    a: SideExplanation
    b: SideExplanation
    differences: BreakdownDifference | None
    statement_breakdown_differences: tuple[StatementBreakdownDifference, ...]
    blocked: tuple[BlockedComparison, ...]
    statements: tuple[StatementComparison, ...]
    efficiency: tuple[EfficiencyRow, ...]
    waits: tuple[WaitComparison, ...]
    stages: tuple[WaitComparison, ...]
    digests: tuple[DigestComparison, ...]
    plans: tuple[PlanComparison, ...]
    profile: profiles.ProfileComparison | None
    instructions: CountComparison | None
    variables: VariablesDiff | None
    unequal: str
    disturbances: tuple[Disturbance, ...]
    missing: tuple[MissingObservation, ...]
    likely_causes: tuple[LikelyCause, ...] = ()
    why_no_likely_causes: str = ""
    latency_ratio: RatioEstimate | None = None
    ablation: Ablation | None = None

    @property
    def base(self) -> str:
        return self.a.label

    @property
    def candidate(self) -> str:
        return self.b.label


def is_observed(explanation: Explanation) -> bool:
    """Return whether either side has observations besides its throughput."""
    trials = (*explanation.a.trials, *explanation.b.trials)
    observed = not all(trial.attempt.observations.is_empty for trial in trials)
    return (
        observed
        or bool(explanation.a.profiled or explanation.b.profiled)
        or explanation.instructions is not None
    )


def is_compared(explanation: Explanation) -> bool:
    """Return whether a block has trials of both sides, so that there is something to compare."""
    a, b = (side.blocks for side in (explanation.a, explanation.b))
    return bool(a & b)


def only_compared(explanation: Explanation) -> Explanation:
    """Return the explanation without data of only one side, where nothing can be compared."""
    if is_compared(explanation):
        return explanation
    a, b = (replace(side, coverage=None, flat=None) for side in (explanation.a, explanation.b))
    return replace(
        explanation, a=a, b=b, blocked=(), statements=(), efficiency=(), waits=(), stages=(),
        digests=(), plans=(), disturbances=(), missing=(), likely_causes=(),
        why_no_likely_causes="",
    )  # fmt: skip


def with_ablation(explanation: Explanation, *found: Ablation) -> Explanation:
    """Add the results of ablations, the newest first: they replace what was only likely."""
    difference = explanation.differences
    difference_us = None if difference is None else difference.latency.mean
    causes = with_answers(explanation.likely_causes, found, difference_us)
    return replace(explanation, likely_causes=causes, ablation=found[0])


def with_ablations(explanation: Explanation, tests: Sequence[StoredRun]) -> Explanation:
    """Add the results that ``tests``, the newest first, have of the two treatments, if any."""
    a, b = explanation.a.levels, explanation.b.levels
    answers = (ablation(stored) for stored in tests if is_ablation_of(stored, a, b))
    found = [each for each in answers if each is not None]
    return with_ablation(explanation, *found) if found else explanation


def explain(
    stored: StoredRun,
    *,
    factor: str,
    base: Level,
    candidate: Level,
    fixed_factors: Mapping[str, Level] | None = None,
) -> tuple[Explanation, ...]:
    """Explain the difference between two levels of a ``factor`` of the run, in each group of it.

    ``fixed_factors`` chooses groups by other factors. Raises UserError for levels that are not
    there.
    """
    if str(base) == str(candidate):
        raise UserError(
            f"{base} does not differ from itself", hint="name another level as the candidate"
        )
    wanted = _chosen(stored, factor, fixed_factors or {})
    found = [
        _explain(stored, factor, of_base, of_candidate)
        for of_base, of_candidate in _pairs(stored, factor, str(base), str(candidate))
        if all(str(of_base.levels[key]) == level for key, level in wanted.items())
    ]
    if not found:
        chosen = ", ".join(f"{key} {level}" for key, level in wanted.items())
        raise UserError(
            f"{shown_line(str(base))} and {shown_line(str(candidate))} have no treatment in common "
            f"with {shown_line(chosen) or 'other factors'}",
            hint="name other levels; `millrace results show` lists those of a run",
        )
    return tuple(found)


def _chosen(stored: StoredRun, factor: str, fixed_factors: Mapping[str, Level]) -> dict[str, str]:
    names = set(stored.run.spec.factor_names) - {factor}
    for name in fixed_factors:
        if name not in names:
            raise UserError(
                f"the run has no other factor {name!r}", hint=f"it has: {', '.join(sorted(names))}"
            )
    return {name: str(level) for name, level in fixed_factors.items()}


def _pairs(
    stored: StoredRun, factor: str, base: str, candidate: str
) -> Iterator[tuple[TreatmentRecord, TreatmentRecord]]:
    """Yield treatments that differ in that factor alone, in the experiment's order."""
    ordered = sorted(stored.treatments, key=lambda treatment: treatment.position)
    for one in ordered:
        if str(one.levels[factor]) != base:
            continue
        rest = _rest(one, factor)
        for other in ordered:
            if str(other.levels[factor]) == candidate and _rest(other, factor) == rest:
                yield one, other


def _rest(treatment: TreatmentRecord, factor: str) -> dict[str, Level]:
    return {name: level for name, level in treatment.levels.items() if name != factor}


def _explain(
    stored: StoredRun, factor: str, base: TreatmentRecord, candidate: TreatmentRecord
) -> Explanation:
    a, b = _side_explanation(stored, factor, base), _side_explanation(stored, factor, candidate)
    spec = stored.run.spec
    varied = [name for name, of in spec.levels.items() if len(of) > 1 and name != factor]
    held = _rest(base, factor)
    tables = [table.name or name for name, table in (spec.workload.tables or {}).items()]
    nouns = [trial.observed.work.noun for trial in (*a.trials, *b.trials)]
    found = Explanation(
        run=stored.run,
        factor=factor,
        group=" · ".join(level_text(name, held[name]) for name in varied),
        fixed_factors=held,
        noun=nouns[0] if nouns else "transaction",
        a=a,
        b=b,
        differences=breakdown_difference(a.breakdown, b.breakdown)
        if a.breakdown is not None and b.breakdown is not None
        else None,
        statement_breakdown_differences=statement_breakdown_differences(a.trials, b.trials),
        blocked=compare_blocked(a.trials, b.trials),
        statements=compare_statements(a.trials, b.trials, tables=tables),
        efficiency=compare_efficiency(a.trials, b.trials),
        waits=compare_waits(a.trials, b.trials),
        stages=compare_stages(a.trials, b.trials),
        digests=compare_digests(a.trials, b.trials, tables=tables),
        plans=compare_plans(a.trials, b.trials),
        profile=profiles.compare_profiles(a.profiled, b.profiled, measured=(a.trials, b.trials)),
        instructions=compare_stored(stored, factor, base, candidate),
        variables=_variables(a.instance, b.instance),
        unequal=_unequal(stored, factor, a, b),
        disturbances=(*_disturbances("A", a), *_disturbances("B", b)),
        missing=(
            *_missing_observations(stored, "A", a, base),
            *_missing_observations(stored, "B", b, candidate),
        ),
    )
    return _with_likely_causes(found, base, candidate)


def _with_likely_causes(
    found: Explanation, base: TreatmentRecord, candidate: TreatmentRecord
) -> Explanation:
    """Return the explanation with its likely causes: by the times, where these differ, and facts.

    Without trials of both in any block there are none.
    """
    if not {trial.block for trial in found.a.trials} & {trial.block for trial in found.b.trials}:
        return found
    a, b = _side_evidence(found.a, base), _side_evidence(found.b, candidate)
    causes: tuple[LikelyCause, ...] = ()
    why_none = ""
    ratio = None
    evidence = None
    if found.differences is not None:
        evidence = Evidence(
            a=a,
            b=b,
            noun=found.noun,
            differences=found.differences,
            groups=() if found.profile is None else found.profile.groups,
            functions=() if found.profile is None else found.profile.leading,
            plans=found.plans,
            unequal=found.unequal,
            margin=found.run.margin,
            statements={
                each.name: each.of_operation for each in found.statement_breakdown_differences
            },
            statement_kinds=_statement_kinds(found),
            varied=_varied(found),
        )
        ratio = evidence.latency_ratio
        causes = ranking.rank_causes(evidence)
        why_none = "" if causes else ranking.why_no_causes(evidence)
    contrast = ranking.Contrast(
        a,
        b,
        found.noun,
        found.plans,
        found.efficiency,
        (found.a.breakdown, found.b.breakdown),
        found.instructions,
        evidence,
    )
    every = ranking.with_facts(causes, ranking.rank_facts(contrast))
    return replace(found, likely_causes=every, why_no_likely_causes=why_none, latency_ratio=ratio)


def _statement_kinds(found: Explanation) -> Mapping[str, frozenset[StatementKind]]:
    """Return what each statement may do, by the workload's text of it, else by EXPLAIN's."""
    explained = {
        plan.statement: side.sql
        for plan in found.plans
        for side in (plan.a, plan.b)
        if side is not None
    }
    written = found.run.spec.workload.texts_of_statements
    each = found.statement_breakdown_differences
    return kinds_of_statements(
        {
            of.name: of.name if of.name in OWN else written.get(of.name, explained.get(of.name))
            for of in each
        },
        {of.name: min(of.a_times, of.b_times) for of in each},
    )


def _varied(found: Explanation) -> Mapping[str, tuple[str | None, str | None]]:
    """Return the options and factors in which the experiment makes A and B differ, with values.

    None where it varies the server, what clients do, or the tables.
    """
    _, name = split_role(found.factor)
    option = name.removeprefix("options.")
    if name == "configuration":
        of_a, of_b = (_requested(side.instance) for side in (found.a, found.b))
        values = {name: (_value(found.a, of_a, name), _value(found.b, of_b, name))
                  for name in {**of_a, **of_b}}  # fmt: skip
        return {name: both for name, both in values.items() if both[0] != both[1]}
    if option == name and not is_known(name):
        return {}
    a, b = (_text(side.level) for side in (found.a, found.b))
    return {option: (a, b)}


def _requested(instance: InstanceRecord | None) -> dict[str, str]:
    """Return the requested options that a server got, by the variable that each of them sets."""
    if instance is None:
        return {}
    return dict(
        variables.requested(option, instance.effective)
        for option in instance.options
        if option.left_out is None
    )


def _value(side: SideExplanation, requested: Mapping[str, str], name: str) -> str | None:
    """Return the effective value of a variable, else the requested one of an option without."""
    effective = {} if side.instance is None else side.instance.effective
    return effective.get(name, requested.get(name))


def _text(level: Level) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)


def _side_evidence(side: SideExplanation, treatment: TreatmentRecord) -> SideEvidence:
    return SideEvidence(side.label, treatment.resolved, side.instance, side.trials)


def _side_explanation(
    stored: StoredRun, factor: str, treatment: TreatmentRecord
) -> SideExplanation:
    trials = observed_trials(stored, treatment)
    profiled = observed_trials(stored, treatment, purpose="profile")
    found = time_breakdown(trials)
    level = treatment.levels[factor]
    instances = (i for trial in (*profiled, *trials) for i in trial.attempt.instances)
    servers = [instance for instance in instances if instance.role in MEASURED]
    failures = _failures(stored, treatment, "measure", "profile")
    return SideExplanation(
        label=level_text(factor, level),
        level=level,
        levels=treatment.levels,
        trials=trials,
        profiled=profiled,
        breakdown=found,
        statement_breakdowns=statement_breakdowns(trials),
        coverage=None
        if found is None
        else coverage(trials, found, spinning_us=profiles.spinning_us(profiled, trials)),
        flat=profiles.flat_profile(profiled, trials),
        instance=servers[-1] if servers else None,
        waiting=_waiting(stored, treatment),
        failed=len(failures),
        first_failure=_failure_text(failures[0]) if failures else "",
    )


def _waiting(stored: StoredRun, treatment: TreatmentRecord) -> int:
    """Count the trials of a treatment without a result, those that measure or are profiled."""
    last = stored.last_attempts()
    return sum(
        trial.treatment_id == treatment.id
        and trial.purpose in ("measure", "profile")
        and trial.id not in last
        for trial in stored.trials
    )


def _failures(
    stored: StoredRun, treatment: TreatmentRecord, *purposes: Purpose
) -> list[StoredAttempt]:
    last = stored.last_attempts()
    return [
        attempt
        for trial in stored.trials
        if trial.treatment_id == treatment.id and trial.purpose in purposes
        if (attempt := last.get(trial.id)) is not None and attempt.outcome == "failed"
    ]


def _failure_text(attempt: StoredAttempt) -> str:
    return f"at step {attempt.failed_step}: {attempt.reason or 'no reason was recorded'}"


def _variables(a: InstanceRecord | None, b: InstanceRecord | None) -> VariablesDiff | None:
    if a is None or b is None or not a.effective or not b.effective:
        return None
    ignored = {*a.server.host_variables, *b.server.host_variables}
    return variables.diff(a.effective, b.effective, ignored=ignored)


def _unequal(stored: StoredRun, factor: str, a: SideExplanation, b: SideExplanation) -> str:
    trials = {trial.id: trial for trial in stored.trials}
    of_a, of_b = (
        [
            work
            for trial in side.trials
            if (work := comparability.trial_work(trials[trial.trial_id], trial.attempt)) is not None
        ]
        for side in (a, b)
    )
    rules = comparability.ComparabilityRules(
        stored.run.margin, stored.run.spec.operations, comparability.asks_the_same(factor)
    )
    return comparability.unequal_work(of_a, of_b, (a.label, b.label), rules).reason


def _disturbances(name: Side, side: SideExplanation) -> Iterator[Disturbance]:
    for trials, profiled in ((side.trials, False), (side.profiled, True)):
        for trial in trials:
            for clause in trial.observed.host.disturbed or ():
                yield Disturbance(name, trial.block, profiled, clause)


def _missing_observations(
    stored: StoredRun, name: Side, side: SideExplanation, treatment: TreatmentRecord
) -> Iterator[MissingObservation]:
    """Yield the missing observations, each once, and the profiled trials without a result."""
    trials = (*side.trials, *side.profiled)
    every = (each for trial in trials for each in trial.observed.missing)
    counts = Counter((each.observer, each.what, each.hint or "") for each in every)
    for (observer, what, hint), count in counts.items():
        yield MissingObservation(name, observer, what, hint, count)
    failed = _failures(stored, treatment, "profile")
    if failed:
        what = f"profiled trials that failed {_failure_text(failed[0])}"
        yield MissingObservation(name, "profile", what, "", len(failed))
