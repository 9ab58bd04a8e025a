"""Rank likely causes by their evidence."""

from millrace.analysis.explain.causes.cpu import compression, cpu, locks
from millrace.analysis.explain.causes.environment import environment
from millrace.analysis.explain.causes.evidence import Evidence
from millrace.analysis.explain.causes.model import (
    Finding,
    LikelyCause,
    capitalised,
    share_text,
    us_text,
)
from millrace.analysis.explain.causes.settings import builds, collations, only_varied, options
from millrace.analysis.explain.causes.storage import client, storage
from millrace.analysis.explain.causes.work import plans, work

LEAST_SHARE = 0.02
"""Of the difference: what explains less is not worth a sentence."""

_WHOLE = 0.995  # of the difference: what would be written as all of it
_MUCH_MORE = 1.2  # times what moved for certain, for a bound to say why it is more

_FINDERS = (
    only_varied, environment, plans, options, work, compression, locks, storage, builds, cpu,
    client, collations,
)  # fmt: skip


def rank_causes(evidence: Evidence) -> tuple[LikelyCause, ...]:
    """Rank the likely causes of the difference; empty where latencies do not differ.

    The rank is the share of the difference that the evidence covers, times the specificity of the
    evidence: first a disturbance of only one side, then a plan, a differing setting known to move
    the parts that moved, counters that moved along, and last a part that moved alone.
    """
    if evidence.why_alike:
        return ()
    findings = (finding for finder in _FINDERS for finding in finder(evidence))
    found = [each for each in findings if each.us >= LEAST_SHARE * evidence.size_us]
    # Evidence for more than the whole difference is no better than for the whole. The sort is
    # stable: the order of finders breaks ties.
    found.sort(key=lambda each: -each.weight * min(each.us / evidence.size_us, 1.0))
    first = {(each.kind, each.about): each for each in reversed(found)}
    once = [each for each in found if first[each.kind, each.about] is each]
    return tuple(_likely_cause(evidence, each) for each in once)


def with_facts(
    causes: tuple[LikelyCause, ...], facts: tuple[LikelyCause, ...]
) -> tuple[LikelyCause, ...]:
    """Return the causes that the times show, and facts where these name no setting or plan.

    Where the times show none, all facts follow, else those that are settings or plans. Counted
    instructions always follow.
    """
    named = any(cause.kind in ("option", "plan") for cause in causes)
    kinds = ("instructions",) if named else ("option", "plan", "instructions", "tables")
    there = {(cause.kind, cause.about) for cause in causes}
    more = [fact for fact in facts if (fact.kind, fact.about) not in there]
    return (*causes, *(fact for fact in more if not causes or fact.kind in kinds))


def why_no_causes(evidence: Evidence) -> str:
    """Explain why the times show no likely cause, and which parts differ nevertheless."""
    if not evidence.why_alike:
        return (
            f"No cause follows from the times: latencies differ, and nothing that was seen makes "
            f"{share_text(LEAST_SHARE)} of the difference or more."
        )
    parts = []
    for line in evidence.differences.lines:
        if line.significant:
            more = "more" if line.difference.mean > 0 else "less"
            parts.append(f"{line.title} ({us_text(line.difference.mean)} {more} in B)")
    nevertheless = f" Parts of them do: {'; '.join(parts)}." if parts else ""
    return f"No cause follows from the times: {evidence.why_alike}.{nevertheless}"


def _likely_cause(evidence: Evidence, found: Finding) -> LikelyCause:
    share = found.us / evidence.size_us
    return LikelyCause(
        kind=found.kind,
        about=found.about,
        sentence=_sentence(evidence, found, share),
        clause=capitalised(found.clause, found.settings, found.names),
        evidence=found.evidence,
        us=evidence.sign * found.us,
        share=share,
        settings=found.settings,
        names=found.names,
        certainty=found.certainty,
        may_be_most=found.may_be_most,
    )


def _sentence(evidence: Evidence, found: Finding, share: float) -> str:
    """State the finding, what it is consistent with, and its share of the difference."""
    clause = found.clause
    clause = capitalised(clause, found.settings, found.names)
    if found.consequence:
        clause = f"{clause}; consistent with {found.consequence}"
    whole = us_text(evidence.size_us)
    if found.most_us is not None:
        return f"{clause} ({_bound(evidence, found.us, found.most_us)} difference of {whole})"
    us = us_text(found.us)
    in_all = "" if us in clause else f"{us} a {evidence.noun} in all, "
    if share > 1:
        return f"{clause} ({in_all}more than the whole difference of {whole})"
    return f"{clause} ({in_all}{share_text(share)} of the difference of {whole})"


def _bound(evidence: Evidence, us: float, most_us: float) -> str:
    """Return text such as ``at most 120 µs a transaction, 60 % of the``."""
    besides = "with all that may come of it, " if most_us > _MUCH_MORE * us else ""
    share = most_us / evidence.size_us
    if share >= _WHOLE:
        return f"{besides}up to the whole"
    return f"{besides}at most {us_text(most_us)} a {evidence.noun}, {share_text(share)} of the"
