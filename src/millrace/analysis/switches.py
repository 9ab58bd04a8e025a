"""How much longer or shorter threads waited than it looked like, by the scheduler's own events.

Looks at threads find short waits too often or too seldom where CPUs are few (see
``observe.switches``). Events of the scheduler tell how long threads slept until another thread of
the server woke them, or somebody outside of it: that is waiting for a lock, and for a client. Where
they tell enough, what was sampled is made to stand for the time that they tell: waits that are
short beside the windows in which events were taken, many of them, and few that reach beyond a
window. Long waits are sampled well. What threads waited more or less than it looked, they ran less
or more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_RUNNING = "running"
# What a thread waited for, by how it slept and who woke it.
_CLASSES: Mapping[tuple[str, str], str] = {("S", "own"): "lock", ("S", "other"): "network"}

_FEWEST = 30  # waits, of which the mean is known to a fifth
_SHORT = 0.05  # of a window; so few of such waits reach beyond it
_CUT = 0.1  # of the windows may be in waits that reach beyond them


def factors(
    threads: Sequence[Mapping[str, Any]], section: Mapping[str, Any]
) -> Mapping[str, float]:
    """By class of states, what the sampled seconds of ``threads`` are to be multiplied with; the
    sum of all seconds stays as it is. Nothing where events tell too little."""
    told = _told(threads, section)
    sampled = {name: _seconds(threads, name) for name in (*told, _RUNNING)}
    told = {name: share for name, share in told.items() if sampled[name]}
    if not told or not sampled[_RUNNING]:
        return {}
    all_s = _seconds(threads)
    found = {name: share * all_s / sampled[name] for name, share in told.items()}
    moved_s = math.fsum((found[name] - 1) * sampled[name] for name in found)
    return {**found, _RUNNING: max(1 - moved_s / sampled[_RUNNING], 0.0)}


def _told(threads: Sequence[Mapping[str, Any]], section: Mapping[str, Any]) -> Mapping[str, float]:
    """Which part of their time threads waited, by class, of those of which events tell enough."""
    tids = {thread["tid"] for thread in threads}
    listened = [thread for thread in section.get("threads") or () if thread["tid"] in tids]
    if not listened or not section["windows"]:
        return {}
    threads_s = section["seconds"] * len(listened)
    if math.fsum(thread["cut_s"] for thread in listened) > _CUT * threads_s:
        return {}
    waits = [wait for thread in listened for wait in thread["waits"]]
    short_s = _SHORT * section["seconds"] / section["windows"]
    found = {}
    for kind, name in _CLASSES.items():
        of_kind = [wait for wait in waits if (wait["state"], wait["woken_by"]) == kind]
        count = sum(wait["count"] for wait in of_kind)
        seconds = math.fsum(wait["seconds"] for wait in of_kind)
        if count >= _FEWEST and seconds <= short_s * count:
            found[name] = seconds / threads_s
    return found


def _seconds(threads: Sequence[Mapping[str, Any]], name: str | None = None) -> float:
    """How long threads were in the states of a class, by the samples, or in all."""
    return math.fsum(
        state.get("seconds", state["count"])
        for thread in threads
        for state in thread["states"]
        if name is None or state["class"] == name
    )
