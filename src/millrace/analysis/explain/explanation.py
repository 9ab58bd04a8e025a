"""What makes two treatments differ: everything that was seen of both, side by side.

The account says where the time of an operation went, the profiles which functions took it, the
server's own instruments what it thinks of itself; plans, variables and the host are there to
suspect. Pure: from a stored run to plain values, read by the reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from millrace.analysis.compare.equal_work import (
    asks_the_same,
    trial_work,
    unequal_work,
)
from millrace.analysis.explain import variables
from millrace.analysis.explain.ablation import Alignments, given_back, is_of
from millrace.analysis.explain.blocking_stacks import BlockedComparison, compare_blocked
from millrace.analysis.explain.causes import evidence as suspected
from millrace.analysis.explain.causes.evidence import Case
from millrace.analysis.explain.causes.model import Suspect
from millrace.analysis.explain.causes.ranking import name_suspects, why_none
from millrace.analysis.explain.decode_observations import observed_trials
from millrace.analysis.explain.efficiency import EfficiencyRow, compare_efficiency
from millrace.analysis.explain.observations import Noun, ObservedTrial
from millrace.analysis.explain.plans import PlanComparison, compare_plans
from millrace.analysis.explain.profiles import (
    FlatProfile,
    ProfileComparison,
    compare_profiles,
    flat_profile,
    spinning_us,
)
from millrace.analysis.explain.statement_breakdown import (
    StatementAccount,
    StatementDifferences,
    statement_accounts,
    statement_differences,
)
from millrace.analysis.explain.statements import StatementComparison, compare_statements
from millrace.analysis.explain.time_breakdown import (
    Account,
    AccountDifferences,
    account,
    differences,
)
from millrace.analysis.explain.variables import VariablesDiff
from millrace.analysis.explain.waits import (
    Coverage,
    DigestComparison,
    WaitComparison,
    compare_digests,
    compare_stages,
    compare_waits,
    coverage,
)
from millrace.errors import UserError
from millrace.levels import Level, level_text
from millrace.model.trials import Purpose
from millrace.store.records import (
    InstanceRecord,
    RunRecord,
    StoredAttempt,
    StoredRun,
    TreatmentRecord,
)

Side = Literal["A", "B"]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Disturbance:
    """What disturbed the host in one trial, in a clause; ``block`` counts from 0."""

    side: Side
    block: int
    profiled: bool
    clause: str


@dataclass(frozen=True)
class Lack:
    """What could not be seen in ``trials`` of a side's trials, and what to do about it."""

    side: Side
    observer: str
    what: str
    remedy: str
    trials: int


@dataclass(frozen=True)
class Explained:
    """One of the two treatments: its trials that were measured and those that were profiled.

    ``account`` and ``coverage`` are None where too little was observed, and
    ``statement_accounts`` empty, as where an operation has one statement alone. ``instance`` is the
    server as its last trial recorded it; ``flat`` its profile, if it has one. ``waiting`` of its
    trials have no result yet; ``failed`` ended in an error, the first of them as
    ``first_failure`` says.
    """

    label: str
    level: Level
    levels: Mapping[str, Level]
    trials: tuple[ObservedTrial, ...]
    profiled: tuple[ObservedTrial, ...]
    account: Account | None
    statement_accounts: tuple[StatementAccount, ...]
    coverage: Coverage | None
    flat: FlatProfile | None
    instance: InstanceRecord | None
    waiting: int
    failed: int
    first_failure: str


@dataclass(frozen=True)
class Explanation:
    """The base (A) and a candidate (B) of one group; all differences are B - A.

    ``factor`` is what they differ in, ``group`` the levels that they share, of factors that have
    several, and ``held`` all of those. ``unequal`` says in which way the two did not do the same
    work, and is empty where they did. ``differences`` and ``profile`` are None where no block has
    both, ``statement_differences`` empty where an operation has one statement or nobody looked.
    ``suspects`` are the likeliest first; ``why_no_suspects`` is a sentence where there are none
    although both have an account. ``experiment`` is what was measured of them.
    """

    run: RunRecord
    factor: str
    group: str
    held: Mapping[str, Level]
    noun: Noun
    a: Explained
    b: Explained
    differences: AccountDifferences | None
    statement_differences: tuple[StatementDifferences, ...]
    blocked: tuple[BlockedComparison, ...]
    statements: tuple[StatementComparison, ...]
    efficiency: tuple[EfficiencyRow, ...]
    waits: tuple[WaitComparison, ...]
    stages: tuple[WaitComparison, ...]
    digests: tuple[DigestComparison, ...]
    plans: tuple[PlanComparison, ...]
    profile: ProfileComparison | None
    variables: VariablesDiff | None
    unequal: str
    disturbances: tuple[Disturbance, ...]
    missing: tuple[Lack, ...]
    suspects: tuple[Suspect, ...] = ()
    why_no_suspects: str = ""
    experiment: Alignments | None = None

    @property
    def base(self) -> str:
        return self.a.label

    @property
    def candidate(self) -> str:
        return self.b.label


def with_experiment(explanation: Explanation, found: Alignments) -> Explanation:
    """The explanation with what an experiment found; suspects that it showed are marked."""
    suspects = tuple(
        replace(each, shown=each.shown or found.shows(each.about)) for each in explanation.suspects
    )
    return replace(explanation, suspects=suspects, experiment=found)


def with_tests(explanation: Explanation, tests: Sequence[StoredRun]) -> Explanation:
    """The explanation with the answer of the first of ``tests`` that is of its two treatments and
    has one; as it is where there is none."""
    a, b = explanation.a.levels, explanation.b.levels
    answers = (given_back(stored) for stored in tests if is_of(stored, a, b))
    found = next((each for each in answers if each is not None), None)
    return explanation if found is None else with_experiment(explanation, found)


def explain(
    stored: StoredRun,
    *,
    factor: str,
    base: Level,
    candidate: Level,
    held: Mapping[str, Level] | None = None,
) -> tuple[Explanation, ...]:
    """Explain the difference between two levels of a ``factor`` of the run, in each group of it.

    ``held`` chooses groups by levels of other factors. Raises UserError for levels that are not
    there.
    """
    if str(base) == str(candidate):
        raise UserError(
            f"{base} is no different from itself", hint="name another level as the candidate"
        )
    wanted = _held(stored, factor, held or {})
    found = [
        _explain(stored, factor, of_base, of_candidate)
        for of_base, of_candidate in _pairs(stored, factor, str(base), str(candidate))
        if all(str(of_base.levels[key]) == level for key, level in wanted.items())
    ]
    if not found:
        chosen = ", ".join(f"{key} {level}" for key, level in wanted.items())
        raise UserError(
            f"{base} and {candidate} have no treatment in common with {chosen or 'other factors'}",
            hint="name other levels; `millrace results show` lists those of a run",
        )
    return tuple(found)


def _held(stored: StoredRun, factor: str, held: Mapping[str, Level]) -> dict[str, str]:
    names = set(stored.run.spec.factor_names) - {factor}
    for name in held:
        if name not in names:
            raise UserError(
                f"the run has no other factor {name!r}",
                hint=f"it has: {', '.join(sorted(names))}",
            )
    return {name: str(level) for name, level in held.items()}


def _pairs(
    stored: StoredRun, factor: str, base: str, candidate: str
) -> Iterator[tuple[TreatmentRecord, TreatmentRecord]]:
    """Treatments that differ in that factor alone, in the experiment's order."""
    ordered = sorted(stored.treatments, key=lambda treatment: treatment.position)
    for one in ordered:
        if str(one.levels[factor]) != base:
            continue
        for other in ordered:
            if str(other.levels[factor]) == candidate and _rest(one, factor) == _rest(
                other, factor
            ):
                yield one, other


def _rest(treatment: TreatmentRecord, factor: str) -> dict[str, Level]:
    return {name: level for name, level in treatment.levels.items() if name != factor}


def _explain(
    stored: StoredRun, factor: str, base: TreatmentRecord, candidate: TreatmentRecord
) -> Explanation:
    a, b = _explained(stored, factor, base), _explained(stored, factor, candidate)
    spec = stored.run.spec
    varied = [name for name, of in spec.levels.items() if len(of) > 1 and name != factor]
    held = _rest(base, factor)
    tables = [table.name or name for name, table in (spec.workload.tables or {}).items()]
    nouns = [trial.observed.work.noun for trial in (*a.trials, *b.trials)]
    found = Explanation(
        run=stored.run,
        factor=factor,
        group=" · ".join(level_text(name, held[name]) for name in varied),
        held=held,
        noun=nouns[0] if nouns else "transaction",
        a=a,
        b=b,
        differences=differences(a.account, b.account, confidence=CONFIDENCE)
        if a.account is not None and b.account is not None
        else None,
        statement_differences=statement_differences(a.trials, b.trials, confidence=CONFIDENCE),
        blocked=compare_blocked(a.trials, b.trials),
        statements=compare_statements(a.trials, b.trials, tables=tables, confidence=CONFIDENCE),
        efficiency=compare_efficiency(a.trials, b.trials, confidence=CONFIDENCE),
        waits=compare_waits(a.trials, b.trials),
        stages=compare_stages(a.trials, b.trials),
        digests=compare_digests(a.trials, b.trials, tables=tables),
        plans=compare_plans(a.trials, b.trials),
        profile=compare_profiles(
            a.profiled, b.profiled, measured=(a.trials, b.trials), confidence=CONFIDENCE
        ),
        variables=_variables(a.instance, b.instance),
        unequal=_unequal(stored, factor, a, b),
        disturbances=(*_disturbances("A", a), *_disturbances("B", b)),
        missing=(*_lacks(stored, "A", a, base), *_lacks(stored, "B", b, candidate)),
    )
    return _suspecting(found, base, candidate)


def _suspecting(
    found: Explanation, base: TreatmentRecord, candidate: TreatmentRecord
) -> Explanation:
    """The explanation with what may have made the difference; nobody is suspected without an
    account of both."""
    if found.differences is None:
        return found
    case = Case(
        a=_side(found.a, base),
        b=_side(found.b, candidate),
        noun=found.noun,
        differences=found.differences,
        groups=() if found.profile is None else found.profile.groups,
        plans=found.plans,
        unequal=found.unequal,
        margin=found.run.margin,
    )
    suspects = name_suspects(case)
    return replace(found, suspects=suspects, why_no_suspects="" if suspects else why_none(case))


def _side(explained: Explained, treatment: TreatmentRecord) -> suspected.Side:
    return suspected.Side(explained.label, treatment.resolved, explained.instance, explained.trials)


def _explained(stored: StoredRun, factor: str, treatment: TreatmentRecord) -> Explained:
    trials = observed_trials(stored, treatment)
    profiled = observed_trials(stored, treatment, purpose="profile")
    found = account(trials, confidence=CONFIDENCE)
    level = treatment.levels[factor]
    failures = _failures(stored, treatment, "measure", "profile")
    return Explained(
        label=level_text(factor, level),
        level=level,
        levels=treatment.levels,
        trials=trials,
        profiled=profiled,
        account=found,
        statement_accounts=statement_accounts(trials, confidence=CONFIDENCE),
        coverage=None
        if found is None
        else coverage(trials, found, spinning_us=spinning_us(profiled, trials)),
        flat=flat_profile(profiled, trials),
        instance=_instance((*profiled, *trials)),
        waiting=_waiting(stored, treatment),
        failed=len(failures),
        first_failure=_failure_text(failures[0]) if failures else "",
    )


def _waiting(stored: StoredRun, treatment: TreatmentRecord) -> int:
    """Count the trials of a treatment without a result; controls are no trials of it."""
    last = stored.last_attempts()
    return sum(
        trial.treatment_id == treatment.id and trial.purpose != "control" and trial.id not in last
        for trial in stored.trials
    )


def _failures(
    stored: StoredRun, treatment: TreatmentRecord, *purposes: Purpose
) -> list[StoredAttempt]:
    """Return the failed newest attempts of a treatment's trials."""
    last = stored.last_attempts()
    return [
        attempt
        for trial in stored.trials
        if trial.treatment_id == treatment.id and trial.purpose in purposes
        if (attempt := last.get(trial.id)) is not None and attempt.outcome == "failed"
    ]


def _failure_text(attempt: StoredAttempt) -> str:
    return f"at step {attempt.failed_step}: {attempt.reason or 'no reason was recorded'}"


def _instance(trials: Sequence[ObservedTrial]) -> InstanceRecord | None:
    found = [i for trial in trials for i in trial.attempt.instances if i.role == "server"]
    return found[-1] if found else None


def _variables(a: InstanceRecord | None, b: InstanceRecord | None) -> VariablesDiff | None:
    if a is None or b is None or not a.effective or not b.effective:
        return None
    ignored = {*a.server.host_variables, *b.server.host_variables}
    return variables.diff(a.effective, b.effective, ignored=ignored)


def _unequal(stored: StoredRun, factor: str, a: Explained, b: Explained) -> str:
    trials = {trial.id: trial for trial in stored.trials}
    of_a, of_b = (
        [
            work
            for trial in side.trials
            if (work := trial_work(trials[trial.trial_id], trial.attempt)) is not None
        ]
        for side in (a, b)
    )
    return unequal_work(
        of_a,
        of_b,
        names=(a.label, b.label),
        operations=stored.run.spec.operations,
        same_statements=asks_the_same(factor),
        margin=stored.run.margin,
    ).reason


def _disturbances(side: Side, explained: Explained) -> Iterator[Disturbance]:
    for trials, profiled in ((explained.trials, False), (explained.profiled, True)):
        for trial in trials:
            for clause in trial.observed.host.get("disturbed") or ():
                yield Disturbance(side, trial.block, profiled, str(clause))


def _lacks(
    stored: StoredRun, side: Side, explained: Explained, treatment: TreatmentRecord
) -> Iterator[Lack]:
    """What observers could not see, each once, and profiled trials that came to nothing."""
    trials = (*explained.trials, *explained.profiled)
    counts: dict[tuple[str, str, str], int] = {}
    for trial in trials:
        for each in trial.observed.missing:
            key = (each.observer, each.what, each.remedy)
            counts[key] = counts.get(key, 0) + 1
    for (observer, what, remedy), count in counts.items():
        yield Lack(side, observer, what, remedy, count)
    failed = _failures(stored, treatment, "profile")
    if failed:
        what = f"profiled trials that failed {_failure_text(failed[0])}"
        yield Lack(side, "profile", what, "", len(failed))
