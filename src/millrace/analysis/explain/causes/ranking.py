"""From what was found to a ranked list of suspects."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.analysis.explain.causes import mechanisms
from millrace.analysis.explain.causes.environment import environment
from millrace.analysis.explain.causes.evidence import Case
from millrace.analysis.explain.causes.model import Finding, Suspect, share_text, us_text
from millrace.analysis.explain.causes.settings import builds, options

LEAST_SHARE = 0.02
"""Of the difference: what explains less is not worth a sentence."""

_WHOLE = 0.995  # of the difference: what would be written as all of it
_MUCH_MORE = 1.2  # times what moved for certain, for a bound to say why it is more

_FINDERS = (
    environment,
    mechanisms.plans,
    options,
    mechanisms.work,
    mechanisms.compression,
    mechanisms.locks,
    mechanisms.storage,
    builds,
    mechanisms.cpu,
    mechanisms.client,
)


def name_suspects(case: Case) -> tuple[Suspect, ...]:
    """What may have made the difference, the likeliest first; empty where latencies do not differ.

    Suspects are ranked by how much of the difference their evidence covers, times how specific the
    evidence is: what disturbed only one side, a plan, a setting that differs and is known to move
    what moved, counters beside what moved, and last what moved alone.
    """
    if not case.is_different:
        return ()
    found = [each for each in _findings(case) if each.us >= LEAST_SHARE * case.size_us]
    found.sort(key=lambda each: -_score(case, each))  # stable: the order of finders breaks ties
    return tuple(_suspect(case, each) for each in found)


def why_none(case: Case) -> str:
    """Why there are no suspects, a sentence that also says what differs nevertheless."""
    if not case.why_alike:
        return (
            f"No suspects: latencies differ, and nothing that was seen makes "
            f"{share_text(LEAST_SHARE)} of the difference or more."
        )
    parts = []
    for line in case.differences.lines:
        if line.significant:
            more = "more" if line.difference.mean > 0 else "less"
            parts.append(f"{line.title} ({us_text(line.difference.mean)} {more} in B)")
    nevertheless = f" Parts of them do: {'; '.join(parts)}." if parts else ""
    return f"No suspects: {case.why_alike}.{nevertheless}"


def _findings(case: Case) -> Iterator[Finding]:
    for finder in _FINDERS:
        yield from finder(case)


def _score(case: Case, found: Finding) -> float:
    """Evidence for more than the whole difference is no better than for the whole."""
    return found.weight * min(found.us / case.size_us, 1.0)


def _suspect(case: Case, found: Finding) -> Suspect:
    share = found.us / case.size_us
    return Suspect(
        kind=found.kind,
        about=found.about,
        sentence=_sentence(case, found, share),
        evidence=found.evidence,
        us=case.sign * found.us,
        share=share,
        settings=found.settings,
    )


def _sentence(case: Case, found: Finding, share: float) -> str:
    """What is so, what it is consistent with, and how much of the difference that is."""
    clause = found.clause
    if clause.split()[0] not in found.settings:  # names of options stay as they are
        clause = clause[0].upper() + clause[1:]
    if found.consequence:
        clause = f"{clause}; consistent with {found.consequence}"
    whole = us_text(case.size_us)
    if found.most_us is not None:
        return f"{clause} ({_bound(case, found.us, found.most_us)} difference of {whole})"
    us = us_text(found.us)
    in_all = "" if us in clause else f"{us} a {case.noun} in all, "
    if share > 1:
        return f"{clause} ({in_all}more than the whole difference of {whole})"
    return f"{clause} ({in_all}{share_text(share)} of the difference of {whole})"


def _bound(case: Case, us: float, most_us: float) -> str:
    """``at most 120 µs a transaction, 60 % of the``; a difference is bounded by itself."""
    besides = "with all that may come of it, " if most_us > _MUCH_MORE * us else ""
    share = most_us / case.size_us
    if share >= _WHOLE:
        return f"{besides}up to the whole"
    return f"{besides}at most {us_text(most_us)} a {case.noun}, {share_text(share)} of the"
