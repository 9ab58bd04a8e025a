"""Decide when a run may stop, which treatments still need blocks, and what more blocks would show.

A comparison of the headline metric is closed when

* it is *decided*: its verdict is regression, improvement or equivalent, by an interval that holds
  for any number of looks; a difference is also left among all comparisons of the run
  (``false_discoveries``);
* a side is *failing*: its three newest trials failed, one after the other;
* its work was *unequal* in five blocks or more: more blocks do not make it equal;
* its trials were *unsteady*, and too many of them will stay so: longer trials would help, not more.

The last two are by evidence that holds for any number of looks, too (``comparability``). All others
are open until the run's limit, since the estimate may move. A closed candidate needs no more
blocks; the base of a group needs them as long as any of its candidates does; what nothing is
compared with, always.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from millrace.analysis.compare import model
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.model.run_spec import FEWEST_BLOCKS, Design
from millrace.stats.power import minimum_detectable_ratio
from millrace.stats.ratio import Looks
from millrace.stats.sequential import FIRST_LOOK

FAILURES = 3  # of one treatment's trials, one after the other; the next would fail like these

_DECIDED = ("regression", "improvement", "equivalent")


def run_status(analysis: model.RunAnalysis, design: Design) -> model.RunStatus:
    """Return the state of the comparisons, the needed blocks, and the ending by the ``design``."""
    blocks = 1 + max((t.block for t in analysis.trials if t.purpose == "measure"), default=-1)
    comparisons = tuple(_statuses(analysis))
    needed = _needed(analysis, comparisons, blocks, max(design.blocks - blocks, 1))
    ending = _ending(analysis, needed, blocks, design)
    return model.RunStatus(blocks, comparisons, needed, ending)


def _ending(
    analysis: model.RunAnalysis, needed: Collection[str], blocks: int, design: Design
) -> model.Ending | None:
    if design.kind != "sequential":
        return None
    if not needed:
        return "closed"
    if blocks >= design.blocks:
        return "blocks"
    if design.max_time_s is not None and blocks:
        return "time" if time_with(analysis, needed, 1) > design.max_time_s else None
    return None


def time_with(analysis: model.RunAnalysis, needed: Collection[str], more: int) -> float:
    """Return how long all trials take with ``more`` blocks of the ``needed`` treatments, in s.

    A/A trials of these blocks do not count, since few blocks have one.
    """
    times = trial_times(analysis)
    return analysis.spent_s + more * sum(times[each] for each in needed)


def trial_times(analysis: model.RunAnalysis, *, unknown_s: float = 0.0) -> dict[str, float]:
    """Return how long a trial of each treatment takes, in s by its id.

    A treatment without a trial takes as long as the others do, else ``unknown_s``.
    """
    known = [t.trial_s for t in analysis.treatments if t.trial_s is not None]
    usual_s = sum(known) / len(known) if known else unknown_s
    return {t.id: usual_s if t.trial_s is None else t.trial_s for t in analysis.treatments}


def visible_changes(
    comparisons: Iterable[model.Comparison], blocks: int, looks: Looks
) -> tuple[float, float] | None:
    """Return the changes that ``blocks`` would show with a probability of 80 %, as fractions.

    These are of the comparison with the least noise and of the one with the most; None where the
    noise of none is known. Raise ValueError for fewer blocks than an interval needs.
    """
    noises = [
        estimate.log_sd
        for each in comparisons
        if (estimate := each.estimate) is not None and estimate.log_sd
    ]
    if not noises:
        return None
    least, most = (
        minimum_detectable_ratio(noise, blocks, looks=looks) - 1
        for noise in (min(noises), max(noises))
    )
    return least, most


def _statuses(analysis: model.RunAnalysis) -> Iterator[model.ComparisonStatus]:
    treatments = {treatment.id: treatment for treatment in analysis.treatments}
    for comparison in analysis.comparisons():
        base, candidate = treatments[comparison.base_id], treatments[comparison.candidate_id]
        state = _state(comparison, base, candidate)
        after = more = None
        if state == "open":
            more = comparison.more_blocks
        else:  # a closed candidate dropped out right after its last block
            trials = (trial for trial in analysis.trials if trial.treatment_id == candidate.id)
            after = max((trial.block + 1 for trial in trials), default=0)
        yield model.ComparisonStatus(comparison, candidate.label, state, after, more)


def _state(
    comparison: model.Comparison, base: TreatmentAnalysis, candidate: TreatmentAnalysis
) -> model.ComparisonState:
    if comparison.verdict in _DECIDED and not comparison.not_significant:
        return "decided"
    if max(base.failed_last, candidate.failed_last) >= FAILURES:
        return "failing"
    return comparison.permanently_incomparable or "open"


def _needed(
    analysis: model.RunAnalysis,
    comparisons: Sequence[model.ComparisonStatus],
    blocks: int,
    most: int,
) -> Mapping[str, int]:
    needed: dict[str, int] = {}
    for each in comparisons:
        if each.state != "open":
            continue
        about = each.more_blocks
        if about is None:
            too_few = each.comparison.n_blocks < FEWEST_BLOCKS
            about = max(FIRST_LOOK - blocks, 1) if too_few else most
        for treatment_id in (each.comparison.base_id, each.comparison.candidate_id):
            needed[treatment_id] = max(needed.get(treatment_id, 0), about)
    compared = {
        id_ for s in comparisons for id_ in (s.comparison.base_id, s.comparison.candidate_id)
    }
    alone = (each.id for each in analysis.treatments if each.id not in compared)
    return needed | dict.fromkeys(alone, most)
