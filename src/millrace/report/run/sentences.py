"""Verdicts in plain English: the answer to the run's question, and a sentence a comparison."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from millrace.analysis.compare.comparability import SkippedShares
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import DIFFERENCES, Comparison, RunAnalysis
from millrace.levels import factor_text, level_text
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.quantities import counted
from millrace.report.common import formatting
from millrace.report.common.wording import first_line, listed
from millrace.report.run import causes, undecided
from millrace.report.run.full_disk_tables import full_disk_answer
from millrace.report.run.undecided import unit_of_evidence
from millrace.stats.ratio import RatioEstimate

FEW = 4  # comparisons at most that the answer names one by one
_FEW_REASONS = 2
_MOST_WORDS = 30  # of a summary
_LARGEST = 2  # regressions that it names at most

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
    """Return the verdict as text, ``base failed`` or ``may be chance``."""
    if comparison.only_base_failed:
        return "base failed"
    if comparison.not_significant:
        return "may be chance"
    return comparison.verdict or "no verdict"


def answer(analysis: RunAnalysis) -> str:
    """Answer the run's question in one to three sentences.

    They are about the headline metric, and about every other metric in which a comparison has a
    regression or improvement that the headline metric does not show, or shows as far smaller. Of
    full disks, they are about what the servers did instead.
    """
    if (of_full_disk := full_disk_answer(analysis)) is not None:
        return of_full_disk
    comparisons = analysis.comparisons()
    if not comparisons:
        factor = factor_text(analysis.factor)
        return (
            f"Nothing was compared: {analysis.base_text} is the only level of {factor}. For a "
            f"verdict, add another level of {factor} to the experiment."
        )
    if all(map(_has_no_result, comparisons)):
        first = f"No comparison could be made: {_why_nothing(analysis, comparisons)}."
    elif len(comparisons) <= FEW:
        first = _few(comparisons, analysis)
    else:
        first = _counts(comparisons, analysis)
    return f"{first}{_in_other_metrics(analysis)}"


def _has_no_result(comparison: Comparison) -> bool:
    has_bound = comparison.slower_at_least is not None or comparison.skipped is not None
    return comparison.estimate is None and not has_bound


def summary(analysis: RunAnalysis) -> str:
    """Answer the run's question in one sentence of at most 30 words, by its headline metric alone.

    Of many comparisons it names the largest regressions, as many as there is room for.
    """
    if (of_full_disk := full_disk_answer(analysis)) is not None:
        return _shortest_of([of_full_disk, f"{of_full_disk.partition('. ')[0].rstrip('.')}."])
    comparisons, base = analysis.comparisons(), analysis.base_text
    if not comparisons:
        return f"Nothing was compared: {base} is the only level of {factor_text(analysis.factor)}."
    if all(map(_has_no_result, comparisons)):
        return "No comparison could be made: no pair of trials has a result."
    if len(comparisons) == 1:
        (only,) = comparisons
        verdict = f"{_name(only, analysis)}: {verdict_text(only)}"
        if only.undecided:
            brief = _brief(only, analysis).partition(" (")[0]
            return f"Not beyond doubt yet, compared with {base}: {brief}."
        return _shortest_of(
            f"Compared with {base}, {text}."
            for text in (_brief(only, analysis), _named_effect(only, analysis), verdict)
        )
    counts = listed(
        [
            counted(len(of_verdict), *words)
            for verdict, words in COUNTED.items()
            if (of_verdict := [each for each in comparisons if _counted_as(each) == verdict])
        ]
    )
    first = f"Of {len(comparisons)} comparisons with {base}: {counts}"
    return _shortest_of([*_with_largest(first, comparisons, analysis), f"{first}."])


def _with_largest(
    text: str, comparisons: Sequence[Comparison], analysis: RunAnalysis
) -> Iterator[str]:
    """Yield the text with the largest regressions (without any, improvements), ever fewer.

    A candidate of which only a bound is known, because it does not answer in time, comes first.
    """
    bounds = [each for each in comparisons if each.slower_at_least is not None]
    if bounds:
        most = max(bounds, key=lambda each: each.slower_at_least or 0.0)
        yield f"{text}; {_name(most, analysis)} {_slower_at_least(most)}."
        return
    for verdict in DIFFERENCES:
        found = [
            (abs(math.log(each.estimate.ratio)), _named_effect(each, analysis))
            for each in comparisons
            if verdict_text(each) == verdict and each.estimate is not None
        ]
        if found:
            named = [name for _, name in sorted(found, key=lambda each: -each[0])[:_LARGEST]]
            for number in range(len(named), 0, -1):
                plural = "s" if number > 1 else ""
                yield f"{text}; largest {verdict}{plural}: {listed(named[:number])}."
            return


def _named_effect(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return text such as ``mysql-5.7.22 gives 9.8 % fewer rows/s``."""
    name = _name(comparison, analysis)
    if comparison.slower_at_least is not None:
        return f"{name} {_slower_at_least(comparison)}"
    if comparison.estimate is None:
        skips = comparison.skipped
        return f"{name} {'has no result' if skips is None else _skips(skips)}"
    return f"{name} {_effect(comparison, comparison.estimate)}"


def _shortest_of(texts: Iterable[str]) -> str:
    """Return the first text that is short enough, or else the last text."""
    every = list(texts)
    return next((each for each in every if len(each.split()) <= _MOST_WORDS), every[-1])


def _few(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    """Return a text for each comparison: first those with a certain result, then the others."""
    without = [each for each in comparisons if each.estimate is not None and each.lacks_verdict]
    others = [each for each in comparisons if each not in without]
    parts = [_brief(each, analysis) for each in others if not each.undecided]
    doubtful = "; ".join(_brief(each, analysis) for each in others if each.undecided)
    said = [f"{listed(parts)}."] if parts else []
    if doubtful:
        lead = "Not beyond doubt" if parts else "nothing is beyond doubt yet"
        said.append(f"{lead}: {doubtful}.")
    if without:
        said.append(_without_verdict(without, analysis))
    return f"Compared with {analysis.base_text}, {' '.join(said)}"


def _without_verdict(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    """Name comparisons that have an estimate, but no verdict, and why in short."""
    names = listed([_name(each, analysis) for each in comparisons])
    have = "has" if len(comparisons) == 1 else "have"
    lost = [_lost(each) for each in comparisons]
    return f"{names} {have} no verdict: {why(comparisons, analysis)}{''.join(dict.fromkeys(lost))}."


def _in_other_metrics(analysis: RunAnalysis) -> str:
    """Name the differences that the headline metric does not show: a few, else the largest."""
    others = {metric: _not_in_headline(metric, analysis) for metric in analysis.metrics}
    if sum(map(len, others.values())) <= FEW:
        parts = [_brief(each, analysis) for of_metric in others.values() for each in of_metric]
        return f" In other metrics, {listed(parts)}." if parts else ""
    parts = [
        f"in {metric.title}: {listed(_counted(of_metric, analysis))}"
        for metric, of_metric in others.items()
        if of_metric
    ]
    return f" Also {'; '.join(parts)}."


def _not_in_headline(metric: Metric, analysis: RunAnalysis) -> list[Comparison]:
    """Return the regressions and improvements in ``metric`` that the headline does not show."""
    if metric in (analysis.headline, analysis.time):
        return []
    headline = {(c.base_id, c.candidate_id): c for c in analysis.comparisons()}
    return [
        each
        for each in analysis.comparisons(metric)
        if verdict_text(each) in DIFFERENCES
        and not _shows(headline[each.base_id, each.candidate_id], each, analysis.margin)
    ]


def _shows(headline: Comparison, other: Comparison, margin: float) -> bool:
    """Return whether the headline's comparison shows a difference in another metric as large.

    4 % fewer transactions/s do not show that the p99 is three times as long.
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
    """Return one comparison in full: effect, ratio, interval, blocks, verdict, and first cause."""
    cause = causes.cause_text(comparison, analysis)
    because = f" {cause[0].upper()}{cause[1:]}." if cause else ""
    return f"{_sentence(comparison, analysis)}{because}"


def _sentence(comparison: Comparison, analysis: RunAnalysis) -> str:
    held = held_text(comparison, analysis)
    factor = analysis.factor
    base, candidate = (level_text(factor, each) for each in (comparison.base, comparison.candidate))
    estimate = comparison.estimate
    if comparison.only_base_failed or estimate is None:
        return _without_result(comparison, candidate, f"{base}{held}")
    against = f"{candidate} against {base}{held}: "
    unit = undecided.unit_of_evidence(comparison, analysis)
    over = f" over {counted(comparison.n_blocks, unit)}"
    measured = f"{_ratio_text(estimate)}{over}"
    if comparison.undecided:
        look, step = undecided.sentences(comparison, estimate, analysis)
        verdict = f"{measured[0].upper()}{measured[1:]}: {_verdict_by_itself(comparison)}"
        return f"{against}{_same(comparison)}{look}. {verdict}{_lost(comparison)}. {step}."
    if comparison.lacks_verdict:
        verdict = f"{verdict_text(comparison)}, {first_line(comparison.reason)}"
        return f"{against}{_same(comparison)}{verdict}. So far {measured}."
    text = f"{candidate} {_effect(comparison, estimate, f'{base}{held}')}: "
    if comparison.same:
        text = f"{candidate} is the same as {base}{held}, measured twice (A/A): "
    text += f"{measured}: {verdict_text(comparison)}"
    if comparison.verdict in DIFFERENCES:
        return f"{text}{_lost(comparison)}."
    return f"{text}, {comparison.reason}."


def _without_result(comparison: Comparison, candidate: str, base: str) -> str:
    if comparison.only_base_failed:
        return f"{candidate} against {base}: base failed, so there is nothing to compare with."
    if comparison.skipped is not None:
        return f"{candidate} {_skips(comparison.skipped, base)}: {verdict_text(comparison)}."
    reason = f"{verdict_text(comparison)}: {first_line(comparison.reason)}"
    if comparison.slower_at_least is None:
        return f"{candidate} against {base}: {reason}."
    return f"{candidate} {_slower_at_least(comparison)} than {base}, {reason}."


def _ratio_text(estimate: RatioEstimate) -> str:
    """Return text such as ``ratio 0.901, 95 % interval 0.890 to 0.911``.

    Of a multiple downwards, also the interval of the multiple: `` (4,300 to 4,700 times)``.
    """
    text = f"ratio {formatting.ratio_text(estimate.ratio)}"
    if estimate.low is None or estimate.high is None:
        return text
    interval = formatting.interval_text(estimate.low, estimate.high)
    if estimate.high < 1 and formatting.is_multiple(estimate.high):
        interval = f"{interval} ({formatting.times_interval_text(estimate.low, estimate.high)})"
    return f"{text}, {estimate.confidence * 100:g} % interval {interval}"


def _same(comparison: Comparison) -> str:
    return "the same, measured twice (A/A); " if comparison.same else ""


def _verdict_by_itself(comparison: Comparison) -> str:
    """Return the verdict, marked as one by itself if it does not survive the correction."""
    by_itself = f"{comparison.verdict} by itself, " if comparison.not_significant else ""
    return f"{by_itself}{verdict_text(comparison)}"


def _effect(comparison: Comparison, estimate: RatioEstimate, base: str = "") -> str:
    """Return the effect of a comparison; for an overloaded open loop, the skipped work."""
    if comparison.skipped is None:
        return effect(estimate.ratio, comparison.metric, base)
    return _skips(comparison.skipped, base)


def _skips(shares: SkippedShares, base: str = "") -> str:
    ours, theirs = formatting.percent_text(shares.candidate), formatting.percent_text(shares.base)
    return f"skips {ours} of the scheduled transactions, {base or 'the base'} {theirs}"


def _slower_at_least(comparison: Comparison) -> str:
    """Return text such as ``is at least 270,000 times slower``: of two digits, not rounded up."""
    times = comparison.slower_at_least or 1.0
    unit = 10.0 ** (math.floor(math.log10(times)) - 1)
    return f"is at least {formatting.count_text(math.floor(times / unit) * unit)} times slower"


def effect(ratio: float, metric: Metric, base: str = "") -> str:
    """Return text such as ``gives 9.8 % fewer rows/s``, ``takes 10.9 % more time (SELECT ...)``.

    With a ``base``, ``... than mysql-5.6.24``; a multiple is ``takes 33.6 times as much time
    (SELECT ...) as mysql-5.6.24``, or ``is 4,500 times slower than mysql-5.6.24``. Several metrics
    may have the same unit: only the primary one goes without its title.
    """
    is_rate, is_time = metric.unit.endswith("/s"), metric.unit == "s"
    size, than = formatting.amount_text(ratio), f" than {base}" if base else ""
    if not (is_rate or is_time):
        if formatting.is_multiple(ratio) and ratio > 1:
            return f"has {size} the {metric.title}{f' of {base}' if base else ''}"
        return f"has {size} {'higher' if ratio >= 1 else 'lower'} {metric.title}{than}"
    unit = "time" if is_time else metric.unit
    title = "" if is_rate and metric.primary else f" ({metric.title})"
    verb = "gives" if is_rate else "takes"
    if formatting.is_multiple(ratio) and ratio > 1:
        how = "many" if is_rate else "much"
        return f"{verb} {size} as {how} {unit}{title}{f' as {base}' if base else ''}"
    if formatting.is_multiple(ratio) and not title:
        return f"is {size} slower{than}"
    how = "more" if ratio >= 1 else "fewer" if is_rate else "less"
    return f"{verb} {size} {how} {unit}{title}{than}"


def held_text(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return the levels of fixed factors that vary in this run: `` (wmf · MyISAM)``."""
    shown = [
        level_text(name, level)
        for name, level in comparison.fixed_factors.items()
        if name not in analysis.constants
    ]
    return f" ({' · '.join(shown)})" if shown else ""


def _name(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return the candidate's name for use in sentences: ``mysql-5.7.22 (wmf)``."""
    return f"{level_text(analysis.factor, comparison.candidate)}{held_text(comparison, analysis)}"


def _brief(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return text such as ``mysql-5.7.22 gives 9.8 % fewer rows/s (regression)``."""
    name = _name(comparison, analysis)
    if comparison.only_base_failed:
        return f"{name} has nothing to be compared with (the base failed)"
    if comparison.slower_at_least is not None:
        return f"{name} {_slower_at_least(comparison)} ({first_line(comparison.reason)})"
    if comparison.estimate is None and comparison.skipped is not None:
        return f"{name} {_skips(comparison.skipped)} ({verdict_text(comparison)})"
    if comparison.estimate is None:
        return f"{name} has no result ({first_line(comparison.reason)})"
    if comparison.undecided:
        return undecided.brief(name, comparison, comparison.estimate, analysis)
    said = f"{verdict_text(comparison)}{_lost(comparison)}"
    if cause := causes.cause_name(comparison, analysis):
        said = f"{said}; {cause}"
    return f"{name} {_effect(comparison, comparison.estimate)} ({said})"


def _lost(comparison: Comparison) -> str:
    """Return text such as ``; 1 of 5 trials of mysql-5.7.22 failed``."""
    return f"; {comparison.lost}" if comparison.lost else ""


def _counts(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    text = (
        f"Of {len(comparisons)} comparisons with {analysis.base_text}: "
        f"{listed(_counted(comparisons, analysis))}."
    )
    if without := [each for each in comparisons if each.lacks_verdict]:
        text = f"{text} No verdict: {why(without, analysis)}."
    if named := causes.causes_counted(comparisons, analysis):
        text = f"{text} First causes named: {named}."
    fewer = sum(bool(c.lost) for c in comparisons if c.verdict != "failed")
    rests = "rests" if fewer == 1 else "rest"
    return f"{text} {fewer} of them {rests} on fewer trials: some failed." if fewer else text


def _counted(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> list[str]:
    """Count the comparisons of each verdict; of differences, name the largest."""
    parts = []
    for verdict, words in COUNTED.items():
        of_verdict = [c for c in comparisons if _counted_as(c) == verdict]
        if not of_verdict:
            continue
        part = counted(len(of_verdict), *words)
        bounds = [each for each in of_verdict if each.slower_at_least is not None]
        if bounds:
            most = max(bounds, key=lambda each: each.slower_at_least or 0.0)
            part += f" ({_name(most, analysis)} {_slower_at_least(most)})"
        elif verdict in DIFFERENCES:
            part += f" (largest: {_largest(of_verdict, analysis)})"
        elif (nearest := undecided.clearest(of_verdict, analysis.margin)) is not None:
            part += f" (clearest: {_brief(nearest, analysis)})"
        parts.append(part)
    return parts


def _counted_as(comparison: Comparison) -> str:
    return "no verdict" if comparison.lacks_verdict else verdict_text(comparison)


def _largest(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    ratios = [each.estimate.ratio if each.estimate else 1.0 for each in comparisons]
    ratio = max(ratios, key=lambda each: max(each, 1 / each))
    largest = comparisons[ratios.index(ratio)]
    cause = causes.cause_name(largest, analysis)
    size = effect(ratio, largest.metric)
    if largest.skipped is not None:
        size = _skips(largest.skipped)
    return f"{_name(largest, analysis)} {size}{f', {cause}' if cause else ''}"


_MOST_NAMES = 4  # of levels whose trials were not steady


def why(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    """Return text such as ``5 of 5 trials of mysql-8.0.12 were not steady``, without a hint.

    Each reason has the number of its comparisons where there are several reasons.
    """
    counts = Counter[str]()
    for each in comparisons:
        if each.verdict is None:
            counts[f"fewer than {FEWEST_BLOCKS} {unit_of_evidence(each, analysis)}s"] += 1
        elif each.unequal:
            counts[_unequal_text(each.unequal, in_full=len(comparisons) == 1)] += 1
    if unsteady := [each for each in comparisons if each.unsteady and each.verdict is not None]:
        counts[_unsteady_text(unsteady, analysis)] = len(unsteady)
    if len(comparisons) == 1 or len(counts) == 1:
        return "; ".join(counts)
    return "; ".join(f"{kind} ({counted(count, 'comparison')})" for kind, count in counts.items())


def _unequal_text(unequal: str, *, in_full: bool) -> str:
    """Return the kind of unequal work; ``in_full`` with its first clause, the figures."""
    kind, _, clauses = unequal.partition(": ")
    return f"{kind}, {clauses.partition('; ')[0]}" if in_full else kind


def _unsteady_text(comparisons: Sequence[Comparison], analysis: RunAnalysis) -> str:
    """Return text such as ``5 of 5 trials of v2 and 1 of 5 of v1 were not steady``."""
    compared = {each for c in comparisons for each in (c.base_id, c.candidate_id)}
    unsteady, judged = Counter[str](), Counter[str]()
    for treatment in analysis.treatments:
        if treatment.id in compared:
            name = level_text(analysis.factor, treatment.level)
            unsteady[name] += len(treatment.unsteady_trials)
            judged[name] += sum(trial.is_judged for trial in treatment.steadiness)
    found = [(name, count) for name, count in unsteady.most_common() if count]
    if len(found) > _MOST_NAMES:
        return f"{unsteady.total()} of {counted(judged.total(), 'trial')} were not steady"
    (first, count), *rest = found
    parts = [f"{count} of {counted(judged[first], 'trial')} of {first}"]
    parts += [f"{count} of {judged[name]} of {name}" for name, count in rest]
    return f"{listed(parts)} {'was' if unsteady.total() == 1 else 'were'} not steady"
