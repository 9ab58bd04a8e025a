"""Verdicts in plain English: the answer to the run's question, and a sentence a comparison."""

import math
from collections.abc import Sequence

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.analysis.compare.verdict import margin_text
from millrace.levels import factor_text, level_text
from millrace.report.common.formatting import counted, percent_text, ratio_text
from millrace.report.common.wording import first_line, listed
from millrace.stats.ratio import RatioEstimate

FEW = 4  # comparisons at most that the answer names one by one
_FEW_REASONS = 2
_DIFFERENCES = ("regression", "improvement")
MANY_BLOCKS = 100  # beyond, a count says less than that it is out of reach

# How comparisons of each verdict are counted: one, and several.
COUNTED = {
    "regression": ("regression", "regressions"),
    "improvement": ("improvement", "improvements"),
    "may be chance": ("that may be chance", "that may be chance"),
    "equivalent": ("equivalent", "equivalent"),
    "inconclusive": ("inconclusive", "inconclusive"),
    "failed": ("failed", "failed"),
    "base failed": ("whose base failed", "whose base failed"),
    "no verdict": ("without a verdict", "without a verdict"),
}


def verdict_text(comparison: Comparison) -> str:
    """Return the verdict as shown, which names a candidate's own failures alone."""
    if comparison.only_base_failed:
        return "base failed"
    if comparison.not_significant:
        return "may be chance"
    return comparison.verdict or "no verdict"


def answer(analysis: RunAnalysis) -> str:
    """Answer the run's question in one to three sentences.

    They are about the headline metric, and about every other metric in which a comparison has a
    regression or improvement that the headline metric does not show, or shows as far smaller.
    """
    comparisons = analysis.comparisons()
    if not comparisons:
        factor = factor_text(analysis.factor)
        return (
            f"Nothing was compared: {analysis.base_text} is the only level of {factor}. For a "
            f"verdict, add another level of {factor} to the experiment."
        )
    if all(comparison.estimate is None for comparison in comparisons):
        first = f"No comparison could be made: {_why_nothing(analysis, comparisons)}."
    elif len(comparisons) <= FEW:
        parts = [_brief(comparison, analysis) for comparison in comparisons]
        first = f"Compared with {analysis.base_text}, {listed(parts)}."
    else:
        first = _counts(comparisons, analysis)
    return f"{first}{_in_other_metrics(analysis)}"


def _in_other_metrics(analysis: RunAnalysis) -> str:
    """Name the differences that the headline metric does not show: a few, else the largest."""
    others = [_not_in_headline(metric, analysis) for metric in analysis.metrics]
    if sum(map(len, others)) <= FEW:
        parts = [_brief(each, analysis) for of_metric in others for each in of_metric]
        return f" In other metrics, {listed(parts)}." if parts else ""
    parts = [part for of_metric in others for part in _counted(of_metric, analysis)]
    return f" In other metrics: {listed(parts)}."


def _not_in_headline(metric: Metric, analysis: RunAnalysis) -> list[Comparison]:
    """Return the regressions and improvements in ``metric`` that the headline does not show."""
    if metric in (analysis.headline, analysis.time):
        return []
    headline = {(c.base_id, c.candidate_id): c for c in analysis.comparisons()}
    return [
        each
        for each in analysis.comparisons(metric)
        if verdict_text(each) in _DIFFERENCES
        and not _shows(headline[each.base_id, each.candidate_id], each, analysis.margin)
    ]


def _shows(headline: Comparison, other: Comparison, margin: float) -> bool:
    """Return whether the headline's comparison shows a difference in another metric as large.

    4 % fewer transactions/s are no sign of a p99 three times as long.
    """
    if verdict_text(headline) != verdict_text(other):
        return False
    ours, theirs = headline.estimate, other.estimate
    if ours is None or theirs is None or theirs.low is None or theirs.high is None:
        return True
    least = min(abs(math.log(theirs.low)), abs(math.log(theirs.high)))
    return least <= abs(math.log(ours.ratio)) + math.log1p(margin)


def _why_nothing(analysis: RunAnalysis, comparisons: Sequence[Comparison]) -> str:
    reasons = {first_line(comparison.reason) for comparison in comparisons}
    if len(reasons) <= _FEW_REASONS or not analysis.failures:
        return "; ".join(sorted(reasons))
    first = analysis.failures[0]
    return (
        f"{len(analysis.failures)} of {counted(len(analysis.trials), 'trial')} failed, the first, "
        f"{first.treatment}, at step {first.step}: {first_line(first.reason)}"
    )


def sentence(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return one comparison in full: effect, ratio, interval, blocks, verdict and what it lacks."""
    held = held_text(comparison, analysis)
    factor = analysis.factor
    base, candidate = (level_text(factor, each) for each in (comparison.base, comparison.candidate))
    estimate = comparison.estimate
    if comparison.only_base_failed:
        return (
            f"{candidate} against {base}{held}: base failed, so there is nothing to compare with."
        )
    if estimate is None:
        reason = first_line(comparison.reason)
        return f"{candidate} against {base}{held}: {verdict_text(comparison)}: {reason}."
    text = f"{candidate} {_effect_of(comparison, estimate)} than {base}{held}: "
    if comparison.same:
        text = f"{candidate} is the same as {base}{held}, measured twice (A/A): "
    text += f"ratio {ratio_text(estimate.ratio)}"
    if estimate.low is not None and estimate.high is not None:
        text += (
            f", {estimate.confidence * 100:g} % interval "
            f"{ratio_text(estimate.low)} to {ratio_text(estimate.high)}"
        )
    text += f" over {counted(comparison.n_blocks, 'block')}: {_verdict_among(comparison, analysis)}"
    if comparison.verdict in _DIFFERENCES:
        return f"{text}{_lost(comparison)}."
    if comparison.verdict == "inconclusive" and not (comparison.unequal or comparison.unsteady):
        return f"{text}, {comparison.reason}{_wanted(comparison, analysis.margin)}."
    return f"{text}, {comparison.reason}."


def _verdict_among(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return the verdict; of one that does not survive the correction, among how many."""
    if not comparison.not_significant or comparison.adjusted_p is None:
        return verdict_text(comparison)
    of_metric = analysis.comparisons(comparison.metric)
    among = counted(sum(each.adjusted_p is not None for each in of_metric), "comparison")
    return (
        f"{comparison.verdict} by itself, may be chance among {among} "
        f"(adjusted p {comparison.adjusted_p:.2g})"
    )


def effect(ratio: float, metric: Metric, *, sure: bool = True) -> str:
    """Return text such as ``gives 9.8 % fewer rows/s``, ``takes 10.9 % more time (SELECT ...)``.

    An effect that is not ``sure`` is what these trials did (``gave``), not what a server does.
    """
    size = percent_text(abs(ratio - 1))
    if metric.unit.endswith("/s"):
        verb = "gives" if sure else "gave"
        return f"{verb} {size} {'more' if ratio >= 1 else 'fewer'} {metric.unit}"
    if metric.unit == "s":
        verb = "takes" if sure else "took"
        return f"{verb} {size} {'more' if ratio >= 1 else 'less'} time ({metric.title})"
    return f"{'has' if sure else 'had'} {size} {'higher' if ratio >= 1 else 'lower'} {metric.title}"


def _effect_of(comparison: Comparison, estimate: RatioEstimate) -> str:
    sure = comparison.verdict not in ("inconclusive", None) and not comparison.not_significant
    return effect(estimate.ratio, comparison.metric, sure=sure)


def held_text(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return the levels of fixed factors that vary in this run: `` (wmf · MyISAM)``."""
    shown = [
        level_text(name, level)
        for name, level in comparison.fixed_factors.items()
        if name not in analysis.constants
    ]
    return f" ({' · '.join(shown)})" if shown else ""


def _wanted(comparison: Comparison, margin: float) -> str:
    """Say which difference these blocks can show, and how many would show one of the margin."""
    wanted, seen = comparison.blocks_wanted, comparison.minimum_detectable
    if wanted is None or wanted > MANY_BLOCKS:
        difference = f"a difference of {margin_text(margin)}"
        return f"; settling {difference} would take more than {MANY_BLOCKS} blocks"
    if seen is None or wanted <= comparison.n_blocks:
        return ""
    return (
        f"; these blocks can show a difference of {percent_text(seen)}, about "
        f"{counted(wanted, 'block')} are needed for one of {margin_text(margin)}"
    )


def _brief(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return text such as ``mysql-5.7.22 gives 9.8 % fewer rows/s (regression)``."""
    name = f"{level_text(analysis.factor, comparison.candidate)}{held_text(comparison, analysis)}"
    if comparison.only_base_failed:
        return f"{name} has nothing to be compared with (the base failed)"
    if comparison.estimate is None:
        return f"{name} has no result ({first_line(comparison.reason)})"
    verdict = comparison.verdict and _verdict_among(comparison, analysis)
    said = f"{verdict}{_lost(comparison)}" if verdict else f"no verdict: {comparison.reason}"
    return f"{name} {_effect_of(comparison, comparison.estimate)} ({said})"


def _lost(comparison: Comparison) -> str:
    """Return text such as ``; 1 of 5 trials of mysql-5.7.22 failed``."""
    return f"; {comparison.lost}" if comparison.lost else ""


def _counts(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    text = (
        f"Of {len(comparisons)} comparisons with {analysis.base_text}: "
        f"{listed(_counted(comparisons, analysis))}."
    )
    fewer = sum(bool(c.lost) for c in comparisons if c.verdict != "failed")
    rests = "rests" if fewer == 1 else "rest"
    return f"{text} {fewer} of them {rests} on fewer trials: some failed." if fewer else text


def _counted(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> list[str]:
    """Count the comparisons of each verdict; of differences, name the largest."""
    parts = []
    for verdict, (one, several) in COUNTED.items():
        of_verdict = [c for c in comparisons if verdict_text(c) == verdict]
        if not of_verdict:
            continue
        part = f"{len(of_verdict)} {one if len(of_verdict) == 1 else several}"
        if verdict in _DIFFERENCES:
            part += f" (largest: {_largest(of_verdict, analysis)})"
        parts.append(part)
    return parts


def _largest(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    ratios = [each.estimate.ratio if each.estimate else 1.0 for each in comparisons]
    ratio = max(ratios, key=lambda each: max(each, 1 / each))
    largest = comparisons[ratios.index(ratio)]
    name = f"{level_text(analysis.factor, largest.candidate)}{held_text(largest, analysis)}"
    return f"{name} {effect(ratio, largest.metric)}"
