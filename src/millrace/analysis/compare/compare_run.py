"""Compare the treatments of a stored run. Pure: no clock, no file, no server."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from millrace.analysis import variables
from millrace.analysis.compare import conditions
from millrace.analysis.compare.comparisons import compare_with_bases
from millrace.analysis.compare.conditions import disturbed_blocks
from millrace.analysis.compare.effects import dependences
from millrace.analysis.compare.equal_work import ComparabilityRules, asks_the_same
from millrace.analysis.compare.false_discoveries import with_adjusted_p
from millrace.analysis.compare.metrics import Metric, read_metrics, time_of, values_by_block
from millrace.analysis.compare.model import (
    AaTrials,
    Comparison,
    Group,
    GroupAaTrials,
    RunAnalysis,
    VariablesComparison,
)
from millrace.analysis.compare.stalls import unequal_stalls
from millrace.analysis.compare.stopping import run_status
from millrace.analysis.compare.treatment_model import Failure, TreatmentAnalysis
from millrace.analysis.compare.treatments import analyse_treatments, find_failures, trial_s
from millrace.errors import UserError
from millrace.levels import Level, level_named, level_text, levels_text
from millrace.model.run_spec import Design, EarlierNoise, RunSpec
from millrace.model.trials import Purpose
from millrace.stats.ratio import Looks, RatioEstimate, paired_ratio
from millrace.store.records import (
    ROUND_FAILED,
    ServerRecord,
    StoredRun,
)

CONFIDENCE = 0.95


def compare_run(
    stored: StoredRun,
    *,
    margin: float | None = None,
    base: str | None = None,
    looks: Looks | None = None,
    design: Design | None = None,
) -> RunAnalysis:
    """Compare every treatment of a run with the base of its group, in every metric.

    ``margin`` (a fraction), ``base`` (another level of the compared factor), ``looks`` (for which
    intervals and refusals hold) and ``design`` (the permitted number of blocks) are the run's own
    by default. Raise UserError for an invalid margin or base.
    """
    run = stored.run
    margin = run.margin if margin is None else margin
    if not 0 < margin < 1:
        raise UserError(
            f"a margin of {margin:.4g} is no fraction between 0 and 1",
            hint="give the smallest difference that matters, such as 2 %",
        )
    metrics = read_metrics(run.spec.workload)
    headline = metrics[0]
    factor = run.spec.compare.factor
    chosen_base = base_level(run.spec, base)
    every, stored = stored, _of(stored, "measure")
    levels = run.spec.levels
    varied = [name for name, of_factor in levels.items() if len(of_factor) > 1 or name == factor]
    holds_for = looks or conditions.holds_for(stored)
    rules = ComparabilityRules(margin, run.spec.operations, asks_the_same(factor), holds_for)
    treatments = analyse_treatments(
        stored, metrics, rules, factor=factor, base=chosen_base, label_factors=varied
    )
    labels = {t.id: t.label for t in treatments}
    failures = find_failures(stored, labels)
    others = [name for name in varied if name != factor]
    last_blocks: dict[str, int] = {}
    for trial in stored.trials:
        last_blocks[trial.treatment_id] = max(last_blocks.get(trial.treatment_id, 0), trial.block)
    groups = _groups(
        treatments, metrics, rules, failures,
        factor=factor, label_factors=others, earlier=run.spec.earlier_noise,
        last_blocks=last_blocks,
    )  # fmt: skip
    with_aa_trials = _of(every, "measure", "aa")
    analysis = RunAnalysis(
        run=run,
        margin=margin,
        confidence=CONFIDENCE,
        factor=factor,
        base=chosen_base,
        constants={name: of[0] for name, of in levels.items() if name not in varied},
        metrics=metrics,
        headline=headline,
        time=time_of(headline, metrics),
        groups=groups,
        variables=tuple(c for group in groups for c in _compare_variables(group)),
        servers=_servers(treatments),
        failures=find_failures(with_aa_trials, labels),
        trials=tuple(sorted(with_aa_trials.trials, key=lambda trial: trial.position)),
        extended_at=conditions.blocks_at_extensions(stored),
        retried=conditions.retried(stored),
        holds_for=holds_for,
        aa_trials=compare_aa_trials(every, groups, headline, holds_for),
        spent_s=math.fsum(map(trial_s, with_aa_trials.attempts)),
        disturbed=disturbed_blocks(stored),
        stalls=tuple(
            each for group in groups for each in unequal_stalls(group.treatments, headline, margin)
        ),
    )
    status = run_status(analysis, design or run.design)
    return replace(analysis, status=status, dependences=dependences(analysis))


def _of(stored: StoredRun, *purposes: Purpose) -> StoredRun:
    """Return the run with trials of these purposes alone."""
    trials = tuple(trial for trial in stored.trials if trial.purpose in purposes)
    kept = {trial.id for trial in trials}
    attempts = tuple(attempt for attempt in stored.attempts if attempt.trial_id in kept)
    return replace(stored, trials=trials, attempts=attempts)


def base_level(spec: RunSpec, name: str | None) -> Level:
    """Return the named level of the compared factor, the experiment's base where it is None.

    Raise UserError for an unknown name.
    """
    compare = spec.compare
    if name is None:
        return compare.base
    levels = spec.levels[compare.factor]
    named = level_named(name, levels)
    if named is None:
        raise UserError(
            f"{name!r} is no level of the compared factor {compare.factor}",
            hint=f"its levels are: {levels_text(levels)}",
        )
    return named


def _groups(
    treatments: Sequence[TreatmentAnalysis],
    metrics: Sequence[Metric],
    rules: ComparabilityRules,
    failures: Sequence[Failure],
    *,
    factor: str,
    label_factors: Sequence[str],
    earlier: Sequence[EarlierNoise],
    last_blocks: Mapping[str, int],
) -> tuple[Group, ...]:
    """Return treatments by the levels of their held factors, each group against its base.

    ``last_blocks`` are those that the run has begun for each treatment, by its id.
    """
    # A trial that was left out because another one of its round failed did not fail itself.
    own: dict[str, list[Failure]] = {}
    for failure in failures:
        if failure.step != ROUND_FAILED:
            own.setdefault(failure.treatment_id, []).append(failure)
    by_held: dict[tuple[tuple[str, Level], ...], list[TreatmentAnalysis]] = {}
    for treatment in treatments:
        by_held.setdefault(tuple(treatment.fixed_factors.items()), []).append(treatment)
    with_bases = [
        (base, [treatment for treatment in members if not treatment.is_base])
        for members in by_held.values()
        for base in members
        if base.is_base
    ]

    def compare_until(block: int) -> tuple[Comparison, ...]:
        as_then = [
            (base.until(block), [each.until(block) for each in candidates])
            for base, candidates in with_bases
        ]
        compared = compare_with_bases(
            as_then, metrics, rules,
            factor=factor, failures=own, earlier=earlier,
        )  # fmt: skip
        return with_adjusted_p(compared, rules.margin)

    candidates = [each.id for each in treatments if not each.is_base]
    compared = _at_their_ends(
        compare_until, {each: last_blocks.get(each, 0) for each in candidates}
    )
    groups = []
    for held_items, members in by_held.items():
        held = dict(held_items)
        bases = [treatment for treatment in members if treatment.is_base]
        ids = {base.id for base in bases}
        comparisons = [each for each in compared if each.base_id in ids]
        label = " · ".join(level_text(name, held[name]) for name in label_factors)
        adjusted = [
            _adjusted(treatment, bases[0], comparisons) if len(bases) == 1 else treatment
            for treatment in members
        ]
        groups.append(Group(held, label, tuple(adjusted), tuple(comparisons)))
    return tuple(groups)


def _at_their_ends(
    compare_until: Callable[[int], Sequence[Comparison]], last_blocks: Mapping[str, int]
) -> list[Comparison]:
    """Return each comparison as it was after the last block of its candidate.

    A candidate that was decided gets no more blocks, while the others go on: what these tell later
    about the noise, and their p-values, would change a verdict without any data of its own. The
    p-values hold for any number of looks, so that a difference which survived the correction at one
    look also survives it at the last one with the smallest p-value that each comparison had.
    """
    by_end = {end: compare_until(end) for end in sorted(set(last_blocks.values()), reverse=True)}
    every = next(iter(by_end.values()), ())
    return [by_end[last_blocks[each.candidate_id]][number] for number, each in enumerate(every)]


def _adjusted(
    treatment: TreatmentAnalysis, base: TreatmentAnalysis, comparisons: Sequence[Comparison]
) -> TreatmentAnalysis:
    """Return a candidate with levels that go with its ratios; see ``MetricSummary``."""
    metrics = dict(treatment.metrics)
    for comparison in comparisons:
        name, estimate = comparison.metric.name, comparison.estimate
        if comparison.candidate_id != treatment.id or estimate is None:
            continue
        ours, theirs = metrics[name], base.metrics[name]
        blocks = [[trial.block for trial in each.trials] for each in (ours, theirs)]
        if blocks[0] != blocks[1] and not (ours.zeros or theirs.zeros):
            metrics[name] = replace(ours, level=theirs.level * estimate.ratio)
    return replace(treatment, metrics=metrics)


def _compare_variables(group: Group) -> list[VariablesComparison]:
    """Return the base's effective variables against each candidate's, role by role."""
    found = []
    for base in (t for t in group.treatments if t.is_base):
        of_base = {instance.role: instance for instance in base.instances}
        for candidate in (t for t in group.treatments if not t.is_base):
            for b in candidate.instances:
                a = of_base.get(b.role)
                if a is None or not a.effective or not b.effective:
                    continue
                ignored = {*a.server.host_variables, *b.server.host_variables}
                diff = variables.diff(a.effective, b.effective, ignored=ignored)
                levels = (str(base.level), str(candidate.level))
                found.append(VariablesComparison(group.label, b.role, *levels, diff))
    return found


def _servers(treatments: Sequence[TreatmentAnalysis]) -> tuple[ServerRecord, ...]:
    servers: dict[str, ServerRecord] = {}
    for treatment in treatments:
        for instance in treatment.instances:
            servers.setdefault(instance.server.name, instance.server)
    return tuple(servers.values())


_Pairs = list[tuple[float, float]]


def compare_aa_trials(
    stored: StoredRun, groups: Sequence[Group], metric: Metric, looks: Looks
) -> AaTrials | None:
    """Compare the A/A trials of each group that has any with the base; None where none has.

    Their ratio to the base's trial of the same block is a difference without a cause (see
    millrace.experiment.aa_trials). The ratios of all groups together are the run's estimate.
    """
    last = stored.last_attempts()
    aa_trials = [trial for trial in stored.trials if trial.purpose == "aa"]
    if not aa_trials:
        return None
    measured = values_by_block(stored, metric, "measure")
    again = values_by_block(stored, metric, "aa")
    found: list[GroupAaTrials] = []
    every: _Pairs = []
    for group in groups:
        for base in (treatment for treatment in group.treatments if treatment.is_base):
            mine = [trial for trial in aa_trials if trial.treatment_id == base.id]
            if not mine:
                continue
            ours, theirs = measured.get(base.id, {}), again.get(base.id, {})
            blocks = sorted(ours.keys() & theirs.keys())
            pairs = [(ours[block], theirs[block]) for block in blocks]
            every += pairs
            ended = (last[trial.id] for trial in mine if trial.id in last)
            found.append(
                GroupAaTrials(
                    base_id=base.id,
                    fixed_factors=group.fixed_factors,
                    label=group.label,
                    planned=len(mine),
                    finished=sum(attempt.outcome == "finished" for attempt in ended),
                    estimate=_aa_estimate(pairs, looks),
                )
            )
    return AaTrials(tuple(found), _aa_estimate(every, looks)) if found else None


def _aa_estimate(pairs: _Pairs, looks: Looks) -> RatioEstimate | None:
    return paired_ratio(*zip(*pairs, strict=True), looks=looks) if pairs else None
