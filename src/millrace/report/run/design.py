"""A run's design, how it ended, and its A/A trials, in words."""

from collections import Counter
from collections.abc import Sequence

from millrace.analysis.compare.model import ComparisonStatus, Group, RunAnalysis, RunStatus
from millrace.analysis.compare.stopping import FAILURES
from millrace.analysis.compare.verdict import margin_text
from millrace.model.run_spec import FEWEST_BLOCKS, Design
from millrace.quantities import counted, duration_in_words
from millrace.report.run.undecided import MANY_BLOCKS
from millrace.store.records import ROUND_FAILED

_STATES = {
    "decided": "decided",
    "failing": "failing",
    "unequal": "of unequal work",
    "unsteady": "not steady",
}


def design_text(analysis: RunAnalysis) -> str:
    """Return text such as ``5 blocks``, ``sequential, at most 20 blocks: decided after 9``."""
    design = analysis.run.design
    slices = _slices(analysis)
    how = f"{slices}, " if slices else ""
    sources = _noise_of(analysis)
    shared = f", intervals from {sources}" if sources else ""
    if design.kind == "fixed":
        return f"{how}{counted(analysis.run.blocks, 'block')}{shared}"
    limits = f"at most {counted(design.blocks, 'block')}"
    if design.max_time_s is not None:
        limits += f" and {duration_in_words(design.max_time_s)}"
    found = analysis.status
    reason = found.ending
    if reason == "closed":
        ended = f"{_closed(found.comparisons)} after {found.blocks}"
    elif reason == "blocks":
        ended = f"stopped there with {_undecided(found)}"
    elif reason == "time":
        blocks = counted(found.blocks, "block")
        why = "as the time would not do for another"
        ended = f"stopped after {blocks}, {why}, with {_undecided(found)}"
    else:
        ended = f"{found.blocks} so far, {_undecided(found)}"
    return f"{how}sequential, {limits}{shared}: {ended}"


def _noise_of(analysis: RunAnalysis) -> str:
    """Name what intervals rest on besides their own blocks; empty for nothing."""
    before = f"the noise of {counted(analysis.earlier_runs, 'earlier run')}"
    if not analysis.earlier_runs:
        return "all comparisons of the run" if analysis.shares_noise else ""
    return f"all comparisons of the run and {before}" if analysis.shares_noise else before


def _slices(analysis: RunAnalysis) -> str:
    """Return ``in slices``, or how many groups were where others were not; empty for none."""
    in_slices = [group for group in analysis.groups if _is_in_slices(group)]
    if not in_slices:
        return ""
    if len(in_slices) == len(analysis.groups):
        return "in slices"
    return f"{len(in_slices)} of {len(analysis.groups)} groups in slices"


def _is_in_slices(group: Group) -> bool:
    return any(treatment.in_slices for treatment in group.treatments)


def _closed(comparisons: Sequence[ComparisonStatus]) -> str:
    """Say ``decided``, or how many are and are not where some cannot be."""
    counts = Counter(_STATES[each.state] for each in comparisons)
    if [*counts] == ["decided"]:
        return "decided"
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _undecided(found: RunStatus) -> str:
    """Return text such as ``1 of 3 undecided: about 14 more blocks``.

    Where blocks are within reach for some comparisons alone, both kinds are counted: ``3 of 8
    undecided: 1 to 52 more blocks for 2 of them, more than 100 for the other``.
    """
    text = f"{len(found.open)} of {len(found.comparisons)} undecided"
    if any(each.comparison.n_blocks < FEWEST_BLOCKS for each in found.open):
        return text
    near = sorted(
        each.more_blocks
        for each in found.open
        if each.more_blocks is not None and each.more_blocks <= MANY_BLOCKS
    )
    far = len(found.open) - len(near)
    if not near:
        return f"{text}: more than {MANY_BLOCKS} more blocks"
    if not far:
        return f"{text}: about {counted(near[-1], 'more block')}"
    least = "" if near[0] == near[-1] else f"{near[0]} to "
    some = f"{least}{counted(near[-1], 'more block')} for {len(near)} of them"
    others = "the other" if far == 1 else f"the other {far}"
    return f"{text}: {some}, more than {MANY_BLOCKS} for {others}"


def method(analysis: RunAnalysis) -> list[str]:
    """Describe how the run was measured and analyzed, a paragraph each."""
    return [*_blocks(analysis), _interval(analysis), _exclusions(analysis.run.design)]


def _blocks(analysis: RunAnalysis) -> list[str]:
    run, design = analysis.run, analysis.run.design
    treatments = counted(len(analysis.treatments), "treatment")
    each_holds = f"{counted(run.blocks, 'block')}; each holds one trial of each of {treatments}"
    paragraphs = [
        (
            f"{each_holds}, in an order drawn at random from seed {run.seed}, group by group, so "
            f"that a drift of the host meets all of a group’s treatments."
        )
    ]
    if in_slices := _slices(analysis):
        paragraphs.append(
            f"{in_slices.capitalize()}: the servers of such a group and block "
            "were started anew, were up at the same time, and took turns every few "
            "milliseconds, in a random order and its mirror image, so that a drift of the host "
            "meets all of them. Throughput of clients, and that of loads without stalls, is by the "
            "trimmed mean of the slices’ log ratios, without the fifth at each end; throughput of "
            "loads, and that of clients with stalls, is that of all these slices together."
        )
    if design.kind == "sequential":
        paragraphs.append(
            f"The run was sequential, with at most {counted(design.blocks, 'block')}: after each "
            f"block, what was decided dropped out of the following ones, and the base of a group "
            f"with its last candidate. Decided is a verdict of regression, improvement or "
            f"equivalent in {analysis.headline.title}."
        )
    if analysis.aa_trials is not None:
        paragraphs.append(
            "In some blocks, chosen by the seed, the base ran once more (an A/A trial). That "
            "enters no verdict, and shows what the host calls a difference where there is none."
        )
    return paragraphs


def _interval(analysis: RunAnalysis) -> str:
    percent = f"{analysis.confidence * 100:g} %"
    interval = f"Student’s t on their logarithms, {percent}, for a number of blocks fixed before"
    if analysis.holds_for == "any":
        interval = f"a confidence sequence of {percent}, which holds however often one has looked"
    if sources := _noise_of(analysis):
        interval = (
            f"from {sources}: {interval}, whose spread is the mean of the comparison’s own and "
            f"of theirs, weighted by their degrees of freedom. A comparison that is much noisier "
            f"or quieter than they are borrows less"
        )
    return (
        f"A comparison pairs the trials of a block. Its ratio is the geometric mean of the blocks’ "
        f"ratios; its interval is {interval}. The verdict is regression or improvement when the "
        f"interval excludes 1 and the estimate is beyond the margin of "
        f"{margin_text(analysis.margin)}; equivalent when the whole interval lies inside the "
        f"margin; otherwise inconclusive. Fewer than {FEWEST_BLOCKS} blocks give no verdict."
    )


def _exclusions(design: Design) -> str:
    beside = ""
    if design.slices:
        beside = f" The other trials of its round are left out with it, at the step {ROUND_FAILED}."
    return (
        f"A trial is left out where it failed at a step, whatever the reason and whichever the "
        f"treatment, and for nothing else; its pair is dropped, the block’s other pairs stay, and "
        f"it is listed under Failures.{beside} Only `--retry-failed` makes it again, with all that "
        f"failed. A sequential run gives a treatment up when {FAILURES} of its trials "
        f"failed, one after the other."
    )
