"""The words for what trials are for and how they end."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

Purpose = Literal["measure", "aa", "profile", "count"]
"""The purpose of a trial.

It measures for verdicts, is one more trial of the base (A/A trial), is profiled, or has its
instructions counted.
"""

Outcome = Literal["finished", "failed", "interrupted"]
"""An attempt finished, failed, or was stopped before it could do either."""


def snapshot_making_s(steps: Iterable[tuple[str, float]]) -> float:
    """Return the seconds in which a trial made snapshots that other trials only restore.

    ``steps`` are the names and the times of its steps so far, in order.
    """
    of_roles: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for name, began_s in steps:
        role, _, step = name.rpartition(": ")
        of_roles[role].append((step, began_s))
    return sum(map(_making_s, of_roles.values()))


def _making_s(steps: Sequence[tuple[str, float]]) -> float:
    """Return the same for one server: the time from its first step until it is restored."""
    saved = max((at for at, (name, _) in enumerate(steps) if name == "save"), default=len(steps))
    restored_s = (began_s for name, began_s in steps[saved:] if name == "restore")
    return max(next(restored_s, 0.0) - steps[0][1], 0.0)


def kind_of_block(purpose: Purpose) -> Purpose:
    """Return the kind of blocks: profiled and counted trials have their own, after all others."""
    return purpose if purpose in ("profile", "count") else "measure"


def is_in_measured_block(purpose: Purpose) -> bool:
    """Return whether a trial is in a block of comparisons, as A/A trials are too."""
    return kind_of_block(purpose) == "measure"
