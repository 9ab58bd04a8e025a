"""The result of an ablation, in words."""

from collections.abc import Iterator

from millrace.analysis.explain.ablation import ALL, Ablation, Recovery
from millrace.analysis.explain.explanation import Explanation
from millrace.stats.mean import MeanEstimate


def sentences(found: Ablation, *, base: str, candidate: str) -> tuple[str, ...]:
    """Return the answer in a sentence, then a line for each part with its interval."""
    return (_answer(found, base, candidate), *_lines(found))


def ablation_sentences(explanation: Explanation) -> tuple[str, ...]:
    """Return the result of an explanation's ablation with what it could not tell, if it has one."""
    found = explanation.ablation
    if found is None:
        return ()
    return (
        *sentences(found, base=explanation.base, candidate=explanation.candidate),
        *(f"could not be tried: {each}" for each in found.untried),
        *(f"not aligned: {each}" for each in found.left_out),
        f"measured by run {found.run_id}",
    )


def _answer(found: Ablation, base: str, candidate: str) -> str:
    if found.unsteady:
        return f"no answer in {found.metric.title}: {found.unsteady}"
    is_loss = found.loss.mean >= 0
    alone = [each for each in found.recovered if each.name != ALL] or found.recovered
    parts = ", ".join(_part(each, is_loss=is_loss) for each in alone)
    difference = f"{_points(found.loss)} % {_noun(found)}{_doubt(found.loss)}"
    return (
        f"of the {difference} of {candidate} against {base} in {found.metric.title}, {parts}; "
        f"{_rest(found.remaining, candidate, is_loss=is_loss)}"
    )


def _part(each: Recovery, *, is_loss: bool) -> str:
    points, doubt = _points(each.share), _doubt(each.share)
    if _is_against(each.share, is_loss=is_loss):
        made = f"made it worse by {points}" if is_loss else f"added {points} to it"
        return f"aligning {each.name} {made}{doubt}"
    if _is_against(each.remaining, is_loss=is_loss) and each.remaining.excludes_0:
        gives = "gives back {}, more than was lost" if is_loss else "takes {}, more than was gained"
        return f"{each.name} {gives.format(points)}{doubt}"
    return f"{points} are {each.name}{doubt}"


def _rest(remaining: MeanEstimate | None, candidate: str, *, is_loss: bool) -> str:
    if remaining is None:
        return "what remains with all of them aligned could not be measured"
    if not _is_against(remaining, is_loss=is_loss):
        return f"{_points(remaining)} remain{_doubt(remaining)}"
    if not remaining.excludes_0:
        return f"nothing remains{_doubt(remaining)}"
    beyond = "better" if is_loss else "worse"
    return f"nothing remains: {candidate} is then {_points(remaining)} % {beyond}"


def _lines(found: Ablation) -> Iterator[str]:
    several = len(found.recovered) > 1
    yield f"{_noun(found)}: {_interval(found.loss)}"
    for each in found.recovered:
        with_all = "aligned together" if each.name == ALL else "aligned"
        yield f"{each.name}, {with_all}: {_interval(each.share)} given back"
    if found.remaining is not None:
        yield f"remaining{' with all aligned' if several else ''}: {_interval(found.remaining)}"
    else:
        for each in found.recovered:
            yield f"remaining with {each.name} aligned: {_interval(each.remaining)}"
    if several:
        yield "what settings give back alone need not add up: one may hide another"


def _noun(found: Ablation) -> str:
    return "loss" if found.loss.mean >= 0 else "gain"


def _is_against(share: MeanEstimate, *, is_loss: bool) -> bool:
    """Return whether a share has the other sign than what it is a share of."""
    return share.mean < 0 if is_loss else share.mean > 0


def _points(share: MeanEstimate) -> str:
    return f"{abs(100 * share.mean):.3g}"


def _doubt(share: MeanEstimate) -> str:
    if share.low is None or share.high is None:
        return " (one block)"
    return "" if share.excludes_0 else " (not sure)"


def _interval(share: MeanEstimate) -> str:
    mean = f"{100 * share.mean:+.1f} %"
    if share.low is None or share.high is None:
        return f"{mean} (one block: no interval)"
    return f"{mean} ({100 * share.low:+.1f} to {100 * share.high:+.1f}, {share.n} blocks)"
