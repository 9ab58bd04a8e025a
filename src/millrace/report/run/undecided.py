"""Sentences on undecided comparisons: how they look so far, and what would decide them."""

import math
from collections.abc import Sequence
from operator import itemgetter

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.analysis.compare.stopping import time_with
from millrace.analysis.compare.verdict import margin_text
from millrace.model.run_spec import BLOCKS_IN_TIME, FEWEST_BLOCKS
from millrace.quantities import counted
from millrace.report.common.formatting import amount_text, size_text
from millrace.report.common.wording import extended
from millrace.report.run.causes import cause_name
from millrace.report.run.units import UNITS_OF_TIME
from millrace.stats.ratio import RatioEstimate

MANY_BLOCKS = 100  # beyond, a count says less than that it is out of reach
_SMALLEST_P = 0.001
_CHANCE = 0.5  # a p-value from here on shows nothing but chance
_RESERVE = 1.1  # times the expected time: a block must fit in it whole


def unit_of_evidence(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return the word for one piece of evidence: a block, or a round of servers that take turns."""
    base = next((each for each in analysis.treatments if each.id == comparison.base_id), None)
    return "round" if base is not None and base.in_slices else "block"


def brief(name: str, comparison: Comparison, estimate: RatioEstimate, analysis: RunAnalysis) -> str:
    """Return a comparison for the report's answer: how it looks, then its figures."""
    # A p-value is against no difference, and says nothing about one that is too small to matter.
    doubt = _doubt(comparison, analysis) if comparison.is_beyond(analysis.margin) else ""
    step = _steps(comparison, analysis, " like these")
    parts = (doubt, step, cause_name(comparison, analysis))
    details = filter(None, parts)
    return f"{name}, {_looks(comparison, estimate, analysis)} ({'; '.join(details)})"


def sentences(
    comparison: Comparison, estimate: RatioEstimate, analysis: RunAnalysis
) -> tuple[str, str]:
    """Return a sentence on how a comparison looks, and one on what would decide it."""
    look = _looks(comparison, estimate, analysis)
    if comparison.is_beyond(analysis.margin):
        look = f"{look}, not yet beyond doubt ({_doubt(comparison, analysis)})"
    metric = comparison.metric
    title = "" if metric.primary and metric.unit.endswith("/s") else f"{metric.title} "
    assumed = "large" if comparison.is_beyond(analysis.margin) else "small"
    step = f"If it is as {assumed} as it looks, {_steps(comparison, analysis)}"
    if option := _option(comparison, analysis):
        step = f"{step} (`{option}`)"
    by_margin = _for_the_margin(comparison, analysis)
    return f"{title}{look}", f"{step}; {by_margin}" if by_margin else step


def next_step(analysis: RunAnalysis) -> str:
    """Return the command that adds blocks to decide comparisons; empty if there is none."""
    undecided = [each for each in analysis.comparisons() if each.undecided]
    if not undecided:
        return _first_verdicts(analysis)
    steps = sorted(more for each in undecided if (more := _reachable(each)) is not None)
    command = _extending(analysis, steps[0]) if steps else ""
    if not command:
        return ""
    units = {unit_of_evidence(each, analysis) for each in undecided}
    blocks = counted(steps[0], f"more {units.pop() if len(units) == 1 else 'block'}")
    settled = _settled(steps, len(undecided))
    return f"{blocks} would settle {settled}, as they look now: `{command}`"


def _settled(steps: Sequence[int], n_undecided: int) -> str:
    """Return text such as ``1 of the 2 that are not beyond doubt, and 9 would settle all of them``.

    The ``steps`` are further blocks, in order, one for each comparison that some can settle.
    """
    if n_undecided == 1:
        return "what is not beyond doubt"
    settled = steps.count(steps[0])
    which = f"{'all' if settled == n_undecided else f'{settled} of the'} {n_undecided}"
    more = ""
    if settled < len(steps):
        of_them = "all" if len(steps) == n_undecided else f"{len(steps)}"
        more = f", and {steps[-1]:,} would settle {of_them} of them"
    return f"{which} that are not beyond doubt{more}"


def _first_verdicts(analysis: RunAnalysis) -> str:
    """Return the command that adds the blocks that verdicts need; empty if they have enough."""
    lacking = [
        each
        for each in analysis.comparisons()
        if each.verdict is None and 0 < each.n_blocks < FEWEST_BLOCKS
    ]
    if not lacking:
        return ""
    command = _extending(analysis, FEWEST_BLOCKS - min(each.n_blocks for each in lacking))
    if not command:
        return ""
    have = "has" if len(lacking) == 1 else "have"
    unit = unit_of_evidence(lacking[0], analysis)
    return (
        f"{counted(len(lacking), 'comparison')} {have} fewer than the {FEWEST_BLOCKS} {unit}s that "
        f"a verdict takes: `{command}`"
    )


def clearest(comparisons: Sequence[Comparison], margin: float) -> Comparison | None:
    """Return the comparison closest to a verdict, of those with the same sign in all blocks."""
    found = [
        (estimate.p_value, each)
        for each in comparisons
        if (estimate := each.estimate) is not None and estimate.p_value is not None
        if each.undecided and each.agreeing_blocks == each.n_blocks and each.is_beyond(margin)
    ]
    return min(found, key=itemgetter(0))[1] if found else None


def _looks(comparison: Comparison, estimate: RatioEstimate, analysis: RunAnalysis) -> str:
    """Return text such as ``slower in every block, by 44.0 %``."""
    margin = margin_text(analysis.margin)
    direction = _direction(estimate.ratio, comparison.metric)
    size = size_text(estimate.ratio)
    if comparison.is_beyond(analysis.margin):
        agreeing, n_blocks = comparison.agreeing_blocks, comparison.n_blocks
        unit = unit_of_evidence(comparison, analysis)
        where = f"every {unit}" if agreeing == n_blocks else f"{agreeing} of {n_blocks} {unit}s"
        return f"{direction} in {where}, by {size}"
    if estimate.excludes_1:
        return f"{direction}, but whether by more than {margin} is open (by {size} so far)"
    return f"no difference beyond {margin} so far, and none excluded{_range(comparison)}"


def _doubt(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return text such as ``p 0.03 alone, 0.34 among 5 comparisons``, ``within chance so far``.

    A p-value for any number of looks is 1 until there are enough blocks to say anything. Next to
    the few more blocks that would settle the comparison, it would read like a proof of chance.
    """
    estimate = comparison.estimate
    if estimate is None or estimate.p_value is None:
        return ""
    if estimate.p_value >= _CHANCE:
        return "within chance so far"
    of_metric = analysis.comparisons(comparison.metric)
    family = sum(each.adjusted_p is not None for each in of_metric)
    alone = f"p {_p_text(estimate.p_value)}"
    if comparison.adjusted_p is None or family < 2:
        return alone
    return f"{alone} alone, {_p_text(comparison.adjusted_p)} among {family} comparisons"


def _steps(comparison: Comparison, analysis: RunAnalysis, like: str = "") -> str:
    """Return text such as ``3 more blocks like these would settle it``."""
    more, unit = _reachable(comparison), unit_of_evidence(comparison, analysis)
    if more is None:
        return f"more than {MANY_BLOCKS} more {unit}s{like} would be needed to settle it"
    return f"{counted(more, f'more {unit}')}{like} would settle it"


def _for_the_margin(comparison: Comparison, analysis: RunAnalysis) -> str:
    """Return text such as ``a difference of 2 % would take more than 100 blocks in all``."""
    wanted, unit = comparison.blocks_wanted, unit_of_evidence(comparison, analysis)
    difference = f"a difference of {margin_text(analysis.margin)}"
    if wanted is None or wanted > MANY_BLOCKS:
        return f"{difference} would take more than {MANY_BLOCKS} {unit}s in all"
    if wanted <= comparison.n_blocks:
        return ""
    return f"{difference} would take about {counted(wanted, unit)} in all"


def _reachable(comparison: Comparison) -> int | None:
    more = comparison.more_blocks
    return None if more is None or more > MANY_BLOCKS else more


def _option(comparison: Comparison, analysis: RunAnalysis) -> str:
    more = _reachable(comparison)
    return "" if more is None else _adding(analysis, more)


def _extending(analysis: RunAnalysis, more: int) -> str:
    """Return the command that adds blocks; empty where the run adds them anyway, or is none."""
    design = analysis.run.design
    options = _adding(analysis, more)
    if options and design.kind == "sequential":
        # The run may have had another limit when it began than it has now.
        blocks, time_s = _limits_with(analysis, more)
        has_room = time_s is not None and blocks == BLOCKS_IN_TIME
        options = _options(None if has_room else blocks, time_s)
    return extended(analysis.run.millrace_command, options) if options else ""


def _adding(analysis: RunAnalysis, more: int) -> str:
    """Return the options of ``millrace run`` that add blocks; empty if a resumed run adds them."""
    design = analysis.run.design
    if design.kind == "fixed":
        return f"--blocks {analysis.status.blocks + more}"
    blocks, time_s = _limits_with(analysis, more)
    return _options(
        blocks if blocks != design.blocks else None, time_s if time_s != design.max_time_s else None
    )


def _limits_with(analysis: RunAnalysis, more: int) -> tuple[int, float | None]:
    """Return the limits of blocks and of time, in s, with which a run can have ``more`` blocks."""
    design, status = analysis.run.design, analysis.status
    blocks, time_s = max(design.blocks, status.blocks + more), design.max_time_s
    if time_s is not None and (needed_s := time_with(analysis, status.needed, more)) > time_s:
        time_s = _RESERVE * needed_s
    return blocks, time_s


def _options(blocks: int | None, time_s: float | None) -> str:
    options = [] if blocks is None else [f"--max-blocks {blocks}"]
    if time_s is not None:
        options.append(f"--max-time {math.ceil(time_s / 60)}min")
    return " ".join(options)


def _direction(ratio: float, metric: Metric) -> str:
    if metric.unit.endswith("/s"):
        return "faster" if ratio > 1 else "slower"
    if metric.unit in UNITS_OF_TIME:
        return "longer" if ratio > 1 else "shorter"
    return "higher" if ratio > 1 else "lower"


def _range(comparison: Comparison) -> str:
    """Return text such as ``: from 10.2 % slower to 9.0 % faster``."""
    estimate = comparison.estimate
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    ends = [
        f"{amount_text(end)} {_direction(end, comparison.metric)}"
        for end in (estimate.low, estimate.high)
    ]
    return f": from {ends[0]} to {ends[1]}"


def _p_text(p_value: float) -> str:
    return f"{p_value:.2g}" if p_value >= _SMALLEST_P else f"below {_SMALLEST_P:g}"
