"""Comparisons of a group's treatments with its base, paired within blocks."""

from collections.abc import Iterable, Mapping, Sequence

from millrace.analysis.compare.comparability import TreatmentTrials, assess_comparability
from millrace.analysis.compare.equal_work import ComparabilityRules
from millrace.analysis.compare.estimates import Pair, by_group, estimate_ratios, paired_values
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Comparison, Verdict
from millrace.analysis.compare.treatment_model import Failure, TreatmentAnalysis
from millrace.analysis.compare.verdict import decide, smallest_detectable
from millrace.levels import level_text
from millrace.model.run_spec import EarlierNoise
from millrace.quantities import counted
from millrace.stats.power import blocks_wanted
from millrace.stats.ratio import RatioEstimate
from millrace.stats.sequential import FEWEST_BLOCKS

_AT_LEAST = f"at least {FEWEST_BLOCKS} are needed"


def compare_with_bases(
    groups: Sequence[tuple[TreatmentAnalysis, Sequence[TreatmentAnalysis]]],
    metrics: Sequence[Metric],
    rules: ComparabilityRules,
    *,
    factor: str,
    failures: Mapping[str, Sequence[Failure]],
    earlier: Sequence[EarlierNoise],
) -> tuple[Comparison, ...]:
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
) -> Comparison:
    base, candidate, names = pair.base, pair.candidate, pair.names
    refused = pair.refused if metric.needs_steady_state else pair.refused.without_steadiness()
    skipped = refused.skipped if metric.shows_skipped else None
    pairs = paired_values(base, candidate, metric)
    verdict: Verdict | None
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
        if skipped is not None and _blocks_of_both(base, candidate) >= FEWEST_BLOCKS:
            verdict = "regression" if skipped.candidate > skipped.base else "improvement"
            reason = refused.reason
        elif estimate is None and _skipped_all((base, candidate)):
            reason = "all of the schedule was skipped, so that no response time was measured"
    slower = _slower_at_least(base, failures.get(candidate.id, ())) if own_failure else None
    lost = _lost((base, candidate), names)
    minimum_detectable, wanted = _power(estimate, rules.margin)
    return Comparison(
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


def _blocks_of_both(base: TreatmentAnalysis, candidate: TreatmentAnalysis) -> int:
    """Count the blocks in which both did some work or skipped it."""
    return len({work.block for work in base.work} & {work.block for work in candidate.work})


def _skipped_all(sides: Iterable[TreatmentAnalysis]) -> bool:
    """Return whether a side skipped the whole schedule in each of its trials."""
    return any(
        side.work and all(work.scheduled and not work.tried for work in side.work) for side in sides
    )


def _slower_at_least(base: TreatmentAnalysis, failures: Sequence[Failure]) -> float | None:
    """Return how many times slower a candidate is at least that was given up; None if unknown.

    Its transaction was under way for so many times as long as one of the base takes on average: in
    the same round, else in the base's own trials. It is the least of its trials that show it.
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
