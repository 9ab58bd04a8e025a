"""Reasons to doubt the answer of a run: disturbances, the base apart from itself, stalls."""

import math
from collections.abc import Iterator

from millrace.analysis.compare.model import AaTrials, RunAnalysis
from millrace.analysis.compare.stalls import UnequalStalls
from millrace.quantities import counted
from millrace.report.common.formatting import amount_text, change_text, interval_text, ratio_text
from millrace.stats.ratio import RatioEstimate

DOUBT = "doubtful"
_PROCESSES = "other processes"


def doubts(analysis: RunAnalysis) -> list[str]:
    """Return what makes an answer doubtful, a clause each; empty where nothing was compared."""
    if not any(each.estimate is not None for each in analysis.comparisons()):
        return []
    return [
        *_about_disturbances(analysis),
        *_about_base(analysis),
        *(_about_stalls(each, analysis.headline.title) for each in analysis.stalls),
    ]


def is_base_doubtful(analysis: RunAnalysis) -> bool:
    """Return whether the base differs from itself, for certain or by more than the margin.

    Where some groups were measured in slices and others were not, each is looked at by itself.
    """
    return bool(_doubtful(analysis))


def _doubtful(analysis: RunAnalysis) -> list[tuple[str, str, RatioEstimate]]:
    """Return where the base differs from itself, the number of pairs in words, and the estimate."""
    found = analysis.aa_trials
    if found is None:
        return []
    each_by_itself = [(f" in {group.label}", group.estimate) for group in found.groups]
    # Groups that were measured in slices have far less noise than others.
    is_mixed = len({each.in_slices for each in analysis.treatments if each.is_base}) > 1
    estimates = each_by_itself if is_mixed else [("", found.estimate)]
    return [
        (where, counted(estimate.n_pairs, "block") if where else _pairs(found), estimate)
        for where, estimate in estimates
        if estimate is not None
        if estimate.excludes_1 or estimate.is_beyond(analysis.margin)
    ]


def aa_text(found: AaTrials) -> str:
    """Return text such as ``the base against itself: 1.004 (0.980 to 1.030) in 2 blocks``."""
    estimate = found.estimate
    planned = sum(group.planned for group in found.groups)
    if estimate is None:
        return f"the base against itself: none of {counted(planned, 'A/A trial')} has a pair yet"
    interval = ""
    if estimate.low is not None:
        interval = f" ({interval_text(estimate.low, estimate.high)})"
    return f"the base against itself: {ratio_text(estimate.ratio)}{interval} in {_pairs(found)}"


def _pairs(found: AaTrials) -> str:
    """Return text such as ``2 blocks``, ``5 pairs of trials of 3 groups``."""
    n_pairs = 0 if found.estimate is None else found.estimate.n_pairs
    if len(found.groups) == 1:
        return counted(n_pairs, "block")
    return f"{counted(n_pairs, 'pair')} of trials of {counted(len(found.groups), 'group')}"


def _about_stalls(found: UnequalStalls, title: str) -> str:
    change = change_text(math.exp(found.effect.mean))
    if found.counted:
        return (
            f"{found.candidate}: stalls alone make its throughput {change}, at least half as much "
            f"as the whole difference; “{title} without stalls” leaves them out"
        )
    return (
        f"{found.candidate}: stalls, which the trimmed mean of slices leaves out, make its "
        f"throughput {change}; “{title} with stalls” counts them"
    )


def _about_disturbances(analysis: RunAnalysis) -> Iterator[str]:
    """Yield how many blocks were disturbed, and whether the result is usable all the same.

    A disturbance meets all trials of a block, so it widens intervals; where it makes the base
    differ from itself, it may also make a difference.
    """
    found = analysis.disturbed
    if found is None or not found.blocks:
        return
    usable = "the result is usable: its intervals include that noise"
    if is_base_doubtful(analysis):
        usable = "do not use small differences of it, because the base differs from itself, too"
    elif analysis.aa_trials is None or analysis.aa_trials.estimate is None:
        usable += ", though no A/A trial checks it"
    are_processes = all(clause.startswith(_PROCESSES) for clause in found.by)
    by = _PROCESSES if are_processes else "what else the host did"
    blocks = f"{found.blocks} of {counted(found.measured, 'block')}"
    yield f"{blocks} {'was' if found.blocks == 1 else 'were'} disturbed by {by}; {usable}"


def _about_base(analysis: RunAnalysis) -> Iterator[str]:
    for where, pairs, estimate in _doubtful(analysis):
        apart = amount_text(estimate.ratio)
        figures = ratio_text(estimate.ratio)
        if estimate.excludes_1:
            interval = interval_text(estimate.low, estimate.high)
            figures = f"{figures}, an interval of {interval} that excludes 1"
        yield (
            f"the base against itself was {apart} apart{where} ({figures}, in {pairs}): "
            f"differences of that size may be this host's own"
        )
