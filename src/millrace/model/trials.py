"""Define the purposes and outcomes of trials."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

Purpose = Literal["measure", "aa", "profile", "count"]
"""The purpose of a trial.

``measure``: for verdicts. ``aa``: a second trial of the base (A/A trial). ``profile``: CPU samples.
``count``: instructions.
"""

Outcome = Literal["finished", "failed", "interrupted"]
"""An attempt finished, failed, or was interrupted before either."""


def snapshot_making_s(steps: Iterable[tuple[str, float]]) -> float:
    """Return how many seconds a trial spent on making snapshots, which later trials only restore.

    ``steps`` are the names and start times of its steps so far, in order.
    """
    of_roles: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for name, began_s in steps:
        role, _, step = name.rpartition(": ")
        of_roles[role].append((step, began_s))
    return sum(map(_making_s, of_roles.values()))


def _making_s(steps: Sequence[tuple[str, float]]) -> float:
    """Return the time of one server from its first step until its snapshot is restored, in s."""
    saved = max((at for at, (name, _) in enumerate(steps) if name == "save"), default=len(steps))
    restored_s = (began_s for name, began_s in steps[saved:] if name == "restore")
    return max(next(restored_s, 0.0) - steps[0][1], 0.0)


def kind_of_block(purpose: Purpose) -> Purpose:
    """Return the kind of blocks: profiled and counted trials have their own, after all others."""
    return purpose if purpose in ("profile", "count") else "measure"


def is_in_measured_block(purpose: Purpose) -> bool:
    """Return whether a trial is in a measured block, as A/A trials are too."""
    return kind_of_block(purpose) == "measure"
