"""Likely causes in words: what they follow from, and what would confirm each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.certainty import Certainty
from millrace.analysis.explain.causes.finders import QUEUE
from millrace.analysis.explain.causes.model import Kind, LikelyCause
from millrace.analysis.explain.explanation import Explanation
from millrace.levels import split_role
from millrace.model.roles import REPLICA
from millrace.report.explanation.sentences import command

_CONFIRMED_BY: Mapping[Kind, str] = {
    "option": "`--ablate` measures B with it as in A",
    "plan": "measure B with the plan of A, by a hint or by optimizer_switch",
    "build": "measure a build of B that is the same in it",
    "environment": "measure again without it",
    "work": "measure both on the same work",
    "cpu": "`millrace run FILE --profile-blocks 3` shows the functions that took the time",
    "lock": "`millrace run FILE --profile-blocks 3` shows where threads wait",
    "storage": "measure both with their files in memory",
    "client": "measure both by the socket file and with one client",
    "compression": "measure B without compression",
    "instructions": "`millrace run FILE --profile-blocks 3` shows whether they take the time",
    "tables": "measure both with tables that name the same collation (COLLATE)",
}
# The same where functions are known already.
_CONFIRMED_IN_PROFILE: Mapping[Kind, str] = {
    "cpu": "“Functions that differ most” and the flame graphs show what calls them",
    "lock": "“What it was blocked in” and the flame graphs show where threads wait",
    "instructions": "“Functions that differ most” shows whether they take the time",
}
_OF_REPLICA = "vary it for the replica alone (replica.options.NAME in the experiment)"


@dataclass(frozen=True)
class CauseText:
    """A likely cause as it is shown; ``details`` are its evidence and what would confirm it."""

    sentence: str
    is_shown: bool
    details: tuple[str, ...]


def confirmed_by(cause: LikelyCause, explanation: Explanation) -> str:
    """Return what would confirm a cause."""
    if cause.about == QUEUE:  # a profile of functions does not confirm it
        return "measure again while the host's CPUs are free"
    if explanation.profile is not None and cause.kind in _CONFIRMED_IN_PROFILE:
        return _CONFIRMED_IN_PROFILE[cause.kind]
    return _CONFIRMED_BY[cause.kind]


def heading(explanation: Explanation) -> str:
    """Return the heading of the likely causes: facts and possible ones alone promise less."""
    causes = explanation.likely_causes
    if all(cause.us is None for cause in causes):
        return "Facts that may be behind it"
    is_likely = any(each.certainty in (Certainty.SHOWN, Certainty.LIKELY) for each in causes)
    return f"What {'is likely' if is_likely else 'may be'} behind it"


def cause_texts(explanation: Explanation) -> tuple[CauseText, ...]:
    """Return the likely causes, the likeliest first."""
    return tuple(
        CauseText(
            cause.sentence,
            cause.certainty == Certainty.SHOWN,
            (*cause.evidence, *_confirmation(cause, explanation)),
        )
        for cause in explanation.likely_causes
    )


def _is_of_a_alone(cause: LikelyCause) -> bool:
    """Return whether B does not have any of the settings, so that it cannot get A's values."""
    own = [cause.names.get(name, (name, name))[1] for name in cause.settings]
    return bool(own) and not any(own)


def ablating(explanation: Explanation) -> str:
    """Return the command that measures what the suspected settings cost; empty without any."""
    suspected = (
        each
        for each in explanation.likely_causes
        if each.kind == "option" and each.certainty != Certainty.SHOWN and not _is_of_a_alone(each)
    )
    if _is_of_replica(explanation) or all(_is_compared(cause, explanation) for cause in suspected):
        return ""
    return f"{command(explanation)} --ablate"


def _is_of_replica(explanation: Explanation) -> bool:
    """Return whether the settings are a replica's, which an ablation cannot change alone."""
    sides = (explanation.a.instance, explanation.b.instance)
    return any(each is not None and each.role == REPLICA for each in sides)


def _confirmation(cause: LikelyCause, explanation: Explanation) -> Sequence[str]:
    if cause.certainty == Certainty.SHOWN:
        return ()
    if _is_compared(cause, explanation):
        return ("to confirm it: more blocks, since it is what the two differ in",)
    if cause.kind == "option" and _is_of_a_alone(cause):
        return ("to confirm it: measure A with it off, since B does not have it",)
    if cause.kind == "option" and _is_of_replica(explanation):
        return (f"to confirm it: {_OF_REPLICA}",)
    return (f"to confirm it: {confirmed_by(cause, explanation)}",)


def _is_compared(cause: LikelyCause, explanation: Explanation) -> bool:
    """Return whether a setting is the compared factor itself, so that nothing can be aligned."""
    factor = split_role(explanation.factor)[1].removeprefix("options.")
    return bool(cause.settings) and cause.settings.keys() == {factor}
