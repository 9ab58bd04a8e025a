"""From what was found to a ranked list of suspects."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.analysis.suspects import mechanisms
from millrace.analysis.suspects.case import Case
from millrace.analysis.suspects.environment import environment
from millrace.analysis.suspects.model import Finding, Kind, Suspect, share_text, us_text
from millrace.analysis.suspects.settings import builds, options

LEAST_SHARE = 0.02
"""Of the difference: what explains less is not worth a sentence."""

# What differs may have moved all that it is known to move; only an experiment tells whether it did.
_BOUNDS: frozenset[Kind] = frozenset({"option", "build"})

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
    us, whole = us_text(found.us), us_text(case.size_us)
    in_all = "" if us in clause else f"{us} a {case.noun} in all, "
    if found.kind in _BOUNDS:
        most = share_text(share) if share < 1 else "all"
        return f"{clause} (at most {in_all}{most} of the difference of {whole})"
    if share > 1:
        return f"{clause} ({in_all}more than the whole difference of {whole})"
    return f"{clause} ({in_all}{share_text(share)} of the difference of {whole})"
