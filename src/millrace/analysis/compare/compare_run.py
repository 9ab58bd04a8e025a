"""Compare the treatments of a stored run. Pure: no clock, no file, no server."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from millrace.analysis import variables
from millrace.analysis.compare import conditions, model
from millrace.analysis.compare.comparability import (
    ComparabilityRules,
    TreatmentTrials,
    asks_the_same,
    assess_comparability,
)
from millrace.analysis.compare.conditions import disturbed_blocks
from millrace.analysis.compare.effects import dependences
from millrace.analysis.compare.estimates import Pair, by_group, estimate_ratios, paired_values
from millrace.analysis.compare.false_discoveries import with_adjusted_p
from millrace.analysis.compare.metrics import Metric, read_metrics, time_of, values_by_block
from millrace.analysis.compare.stalls import unequal_stalls
from millrace.analysis.compare.stopping import run_status
from millrace.analysis.compare.treatments import (
    Failure,
    TreatmentAnalysis,
    analyse_treatments,
    find_failures,
    trial_s,
)
from millrace.analysis.compare.verdict import decide, smallest_detectable
from millrace.errors import UserError
from millrace.levels import Level, level_named, level_text, levels_text
from millrace.model.run_spec import FEWEST_BLOCKS, Design, EarlierNoise, RunSpec
from millrace.model.trials import Purpose
from millrace.quantities import counted
from millrace.stats.power import blocks_wanted
from millrace.stats.ratio import Looks, RatioEstimate, paired_ratio
from millrace.store.records import ROUND_FAILED, ServerRecord, StoredRun

CONFIDENCE = 0.95


def compare_run(
    stored: StoredRun,
    *,
    margin: float | None = None,
    base: str | None = None,
    looks: Looks | None = None,
    design: Design | None = None,
) -> model.RunAnalysis:
    """Compare every treatment of a run with the base of its group, in every metric.

    ``margin`` (a fraction), ``base`` (another level of the compared factor), ``looks`` (for which
    intervals and refusals hold) and ``design`` (the permitted number of blocks) are the run's own
    by default. Raise UserError for an invalid margin or base.
    """
    run = stored.run
    margin = run.margin if margin is None else margin
    if not 0 < margin < 1:
        raise UserError(
            f"a margin of {margin:.4g} is not a fraction between 0 and 1",
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
    analysis = model.RunAnalysis(
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
            f"{name!r} is not a level of the compared factor {compare.factor}",
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
) -> tuple[model.Group, ...]:
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

    def compare_until(block: int) -> tuple[model.Comparison, ...]:
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
        groups.append(model.Group(held, label, tuple(adjusted), tuple(comparisons)))
    return tuple(groups)


def _at_their_ends(
    compare_until: Callable[[int], Sequence[model.Comparison]], last_blocks: Mapping[str, int]
) -> list[model.Comparison]:
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
    treatment: TreatmentAnalysis, base: TreatmentAnalysis, comparisons: Sequence[model.Comparison]
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


def _compare_variables(group: model.Group) -> list[model.VariablesComparison]:
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
                found.append(model.VariablesComparison(group.label, b.role, *levels, diff))
    return found


def _servers(treatments: Sequence[TreatmentAnalysis]) -> tuple[ServerRecord, ...]:
    servers: dict[str, ServerRecord] = {}
    for treatment in treatments:
        for instance in treatment.instances:
            servers.setdefault(instance.server.name, instance.server)
    return tuple(servers.values())


_Pairs = list[tuple[float, float]]


def compare_aa_trials(
    stored: StoredRun, groups: Sequence[model.Group], metric: Metric, looks: Looks
) -> model.AaTrials | None:
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
    found: list[model.GroupAaTrials] = []
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
                model.GroupAaTrials(
                    base_id=base.id,
                    fixed_factors=group.fixed_factors,
                    label=group.label,
                    planned=len(mine),
                    finished=sum(attempt.outcome == "finished" for attempt in ended),
                    estimate=_aa_estimate(pairs, looks),
                )
            )
    return model.AaTrials(tuple(found), _aa_estimate(every, looks)) if found else None


def _aa_estimate(pairs: _Pairs, looks: Looks) -> RatioEstimate | None:
    return paired_ratio(*zip(*pairs, strict=True), looks=looks) if pairs else None


_AT_LEAST = f"at least {FEWEST_BLOCKS} are needed"


def compare_with_bases(
    groups: Sequence[tuple[TreatmentAnalysis, Sequence[TreatmentAnalysis]]],
    metrics: Sequence[Metric],
    rules: ComparabilityRules,
    *,
    factor: str,
    failures: Mapping[str, Sequence[Failure]],
    earlier: Sequence[EarlierNoise],
) -> tuple[model.Comparison, ...]:
    """Compare the candidates of each group with its base, in each metric.

    ``groups`` are all bases of a run, each with its candidates, since comparisons share evidence;
    ``earlier`` is that of other runs. ``failures`` are by treatment id, the first one first.
    """
    pairs = [
        _pair(base, candidate, rules, factor)
        for base, candidates in groups
        for candidate in candidates
    ]
    known = by_group(earlier)
    estimates = {
        metric.name: estimate_ratios(pairs, metric, rules.looks, known) for metric in metrics
    }
    return tuple(
        _compare(pair, metric, estimates[metric.name][number], rules, failures=failures)
        for number, pair in enumerate(pairs)
        for metric in metrics
    )


def _pair(
    base: TreatmentAnalysis, candidate: TreatmentAnalysis, rules: ComparabilityRules, factor: str
) -> Pair:
    names = (level_text(factor, base.level), level_text(factor, candidate.level))
    of_base, of_candidate = (
        TreatmentTrials(name, each.work, each.steadiness)
        for name, each in zip(names, (base, candidate), strict=True)
    )
    return Pair(base, candidate, names, assess_comparability(of_base, of_candidate, rules))


def _compare(
    pair: Pair,
    metric: Metric,
    estimate: RatioEstimate | None,
    rules: ComparabilityRules,
    *,
    failures: Mapping[str, Sequence[Failure]],
) -> model.Comparison:
    base, candidate, names = pair.base, pair.candidate, pair.names
    refused = pair.refused if metric.needs_steady_state else pair.refused.without_steadiness()
    skipped = refused.skipped if metric.shows_skipped else None
    pairs = paired_values(base, candidate, metric)
    verdict: model.Verdict | None
    own_failure = _failure(candidate, names[1], failures)
    base_failure = _failure(base, f"the base {names[0]}", failures)
    if failure := own_failure or base_failure:
        verdict, reason = "failed", failure
    else:
        verdict, reason = None, f"no block in which both have finished; {_AT_LEAST}"
        if estimate is not None:
            verdict, reason = decide(estimate, metric.direction, rules.margin)
        if refused.reason and verdict is not None:
            verdict, reason = "inconclusive", refused.reason
        both = {work.block for work in base.work} & {work.block for work in candidate.work}
        if skipped is not None and len(both) >= FEWEST_BLOCKS:
            verdict = "regression" if skipped.candidate > skipped.base else "improvement"
            reason = refused.reason
        elif estimate is None and _skipped_all((base, candidate)):
            reason = "all of the schedule was skipped, so that no response time was measured"
    slower = _slower_at_least(base, failures.get(candidate.id, ())) if own_failure else None
    lost = _lost((base, candidate), names)
    minimum_detectable, wanted = _power(estimate, rules.margin)
    return model.Comparison(
        base_id=base.id,
        candidate_id=candidate.id,
        base=base.level,
        candidate=candidate.level,
        fixed_factors=base.fixed_factors,
        metric=metric,
        estimate=estimate,
        n_blocks=len(pairs[0]),
        verdict=verdict,
        reason=_with_lost(reason, lost) if lost else reason,
        base_failed=base.failed,
        candidate_failed=candidate.failed,
        lost=lost,
        unequal=refused.unequal,
        skipped=skipped,
        slower_at_least=slower,
        unsteady=refused.unsteady,
        permanently_incomparable=refused.permanently,
        only_base_failed=own_failure is None and base_failure is not None,
        minimum_detectable=minimum_detectable,
        blocks_wanted=wanted,
        same=base.resolved == candidate.resolved,
        agreeing_blocks=_agreeing(*pairs, estimate),
    )


def _agreeing(
    base: Sequence[float], candidate: Sequence[float], estimate: RatioEstimate | None
) -> int:
    """Count the blocks whose own ratio is on the estimate's side of 1."""
    if estimate is None:
        return 0
    more = estimate.ratio > 1
    return sum(
        (theirs > ours) == more and theirs != ours
        for ours, theirs in zip(base, candidate, strict=True)
    )


def _failure(
    treatment: TreatmentAnalysis, name: str, failures: Mapping[str, Sequence[Failure]]
) -> str | None:
    """Explain why a treatment has no result, where all of its ended trials failed."""
    of_treatment = failures.get(treatment.id, ())
    if treatment.finished or not of_treatment:
        return None
    return f"{name} failed at step {of_treatment[0].step}: {of_treatment[0].reason}"


def _skipped_all(sides: Iterable[TreatmentAnalysis]) -> bool:
    """Return whether a side skipped the whole schedule in each of its trials."""
    return any(
        side.work and all(work.scheduled and not work.tried for work in side.work) for side in sides
    )


def _slower_at_least(base: TreatmentAnalysis, failures: Sequence[Failure]) -> float | None:
    """Return how many times slower a candidate is at least that was given up; None if unknown.

    Its transaction was under way for this multiple of the base's mean: in the same round, else in
    the base's own trials. Of several trials, the least multiple counts.
    """
    of_base = next((each.mean_s for each in base.latencies if each.of == "transaction"), None)
    times = [
        each.unanswered_s / took_s
        for each in failures
        if each.unanswered_s and (took_s := each.base_transaction_s or of_base)
    ]
    return min(times) if times and min(times) > 1 else None


def _lost(treatments: Sequence[TreatmentAnalysis], names: Sequence[str]) -> str:
    """Return text such as ``5 of 10 trials of mysql-5.7.22 failed``, of both."""
    return " and ".join(
        f"{failed} of {counted(t.planned, 'trial')} of {name} failed"
        for t, name in zip(treatments, names, strict=True)
        if (failed := t.failed - t.left_out)
    )


def _with_lost(reason: str, lost: str) -> str:
    """Return the reason with the lost trials appended to its first line, which sentences show."""
    first, newline, rest = reason.partition("\n")
    return f"{first.rstrip('. ')}; {lost}{newline}{rest}"


def _power(estimate: RatioEstimate | None, margin: float) -> tuple[float | None, int | None]:
    """Return the least detectable difference and the needed number of blocks."""
    if estimate is None or estimate.log_sd is None or estimate.n_pairs < FEWEST_BLOCKS:
        return None, FEWEST_BLOCKS
    wanted = blocks_wanted(
        estimate.log_sd,
        margin,
        alpha=1 - estimate.confidence,
        looks=estimate.looks,
        borrowed=estimate.borrowed,
    )
    return smallest_detectable(estimate), wanted
