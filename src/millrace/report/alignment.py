"""What aligned settings gave back of a loss, in words."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.analysis.alignment import ALL, Alignments
from millrace.analysis.explanation import Explanation
from millrace.stats import MeanEstimate


def sentences(found: Alignments, *, base: str, candidate: str) -> tuple[str, ...]:
    """The answer in a sentence, then a line for each part with its interval."""
    return tuple(_sentences(found, base, candidate))


def experiment_sentences(explanation: Explanation) -> tuple[str, ...]:
    """The same of the experiment of an explanation; nothing where there was none."""
    found = explanation.experiment
    if found is None:
        return ()
    said = sentences(found, base=explanation.base, candidate=explanation.candidate)
    return (*said, f"measured by run {found.run_id}", *found.left_out)


def _sentences(found: Alignments, base: str, candidate: str) -> Iterator[str]:
    several = len(found.given_back) > 1
    alone = [each for each in found.given_back if each.name != ALL]
    parts = [f"{_points(each.share)} are {each.name}" for each in alone]
    loss = "loss" if found.loss.mean >= 0 else "gain"
    yield (
        f"of the {_points(found.loss)} % {loss} of {candidate} against {base} in "
        f"{found.metric.title}, {', '.join(parts)}; {_points(found.remaining)} remain"
    )
    yield f"{loss}: {_interval(found.loss)}"
    for each in found.given_back:
        with_all = "aligned together" if each.name == ALL else "aligned"
        yield f"{each.name}, {with_all}: {_interval(each.share)} given back"
    yield f"remaining{' with all aligned' if several else ''}: {_interval(found.remaining)}"
    if several:
        yield "what settings give back alone need not add up: one may hide another"


def _points(share: MeanEstimate) -> str:
    return f"{abs(100 * share.mean):.3g}"


def _interval(share: MeanEstimate) -> str:
    mean = f"{100 * share.mean:+.1f} %"
    if share.low is None or share.high is None:
        return f"{mean} (one block: no interval)"
    return f"{mean} ({100 * share.low:+.1f} to {100 * share.high:+.1f}, {share.n} blocks)"
