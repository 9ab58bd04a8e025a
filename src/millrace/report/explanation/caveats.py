"""The reasons to doubt an explanation, in sentences."""

from collections.abc import Iterator

from millrace.analysis.explain.caveats import (
    Caveats,
    NegativePart,
    UnclosedBreakdown,
    UnclosedStatements,
    caveats,
)
from millrace.analysis.explain.explanation import Explanation, Side, SideExplanation
from millrace.quantities import counted
from millrace.report.common.formatting import figure_text, whole_percent_text
from millrace.report.common.wording import imported_notes
from millrace.report.explanation.sentences import within

NOT_SURE = "not sure: does not hold after correction for the number of rows looked at"
ONE_BLOCK = "?: of one block, which may be chance"

_PROCESSES = "other processes"
_USABLE = "what is sure is usable, since intervals include that noise"
# Fixed-sample intervals are too narrow where results decided when to stop.
_SEQUENTIAL = (
    "The number of blocks was decided by what they showed: the verdict allows for that, the "
    "intervals here do not, and are somewhat too narrow."
)
_BACKGROUND = (
    "Background clients worked meanwhile. The time of a transaction leaves their threads out "
    "(“other sessions”); the server's counters, waits and profiles include what they did."
)


def caveat_sentences(explanation: Explanation) -> list[str]:
    """List the reasons why the answer may be wrong, a sentence each."""
    found = caveats(explanation)
    return [
        *(f"{note[0].upper()}{note[1:]}." for note in imported_notes(explanation.run)),
        *(_breakdown(each, explanation) for each in found.breakdowns),
        *(_negative(each, explanation) for each in found.negative),
        *(_statements(each, explanation) for each in found.statements),
        *_disturbed(found, explanation),
        *([_SEQUENTIAL] if found.is_sequential else []),
        *([_BACKGROUND] if found.background_clients else []),
    ]


def _side(explanation: Explanation, name: Side) -> SideExplanation:
    return explanation.a if name == "A" else explanation.b


def _breakdown(found: UnclosedBreakdown, explanation: Explanation) -> str:
    label = _side(explanation, found.side).label
    blocks_far = found.blocks.items()
    far = "; ".join(f"block {block + 1}: {whole_percent_text(of)}" for block, of in blocks_far)
    if found.share is None:
        return (
            f"In {counted(len(found.blocks), 'block')} of {label} too much is "
            f"unaccounted to trust the parts: {far}."
        )
    blocks = f" ({far})" if far and found.trials > 1 else ""
    return (
        f"{whole_percent_text(abs(found.share))} of the latency of {label} is "
        f"{_kind(found.share)}: do not trust the parts{blocks}."
    )


def _negative(found: NegativePart, explanation: Explanation) -> str:
    where = within(_side(explanation, found.side), explanation.factor)
    return (
        f"“{found.title}” is {figure_text(found.us)} µs {where}, which no time can be: the "
        "breakdown counts a part of it elsewhere, so do not rely on this part."
    )


def _kind(share: float) -> str:
    return "unaccounted" if share > 0 else "counted twice"


def _statements(found: UnclosedStatements, explanation: Explanation) -> str:
    several = len(found.shares) > 1
    where = within(_side(explanation, found.side), explanation.factor)
    named = ", ".join(
        f"{name} ({whole_percent_text(abs(share))} {_kind(share)})"
        for name, share in found.shares.items()
    )
    return (
        f"The breakdown{'s' if several else ''} of {named} "
        f"{where} do{'' if several else 'es'} not close: do not trust "
        f"{'their' if several else 'its'} parts."
    )


def _disturbed(found: Caveats, explanation: Explanation) -> Iterator[str]:
    """Yield text such as ``2 of 3 blocks of A were disturbed by other processes``."""
    if not found.by:
        return
    sides = [
        f"{each.blocks} of {counted(each.trials, 'block')} of {_side(explanation, each.side).label}"
        for each in found.disturbed
    ]
    ours = all(clause.startswith(_PROCESSES) for clause in found.by)
    by = f"by {_PROCESSES}" if ours else "by what else the host did"
    one = len(sides) == 1 and sides[0].startswith("1 ")
    yield f"{' and '.join(sides)} {'was' if one else 'were'} disturbed {by}; {_USABLE}."
