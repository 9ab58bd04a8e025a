"""What the two trials of a pair do at the same moment.

Each prepares, restores, starts and warms its server at its own speed. Then it waits for the other
(``READY``), once more when everything is set up and the load generator is next (``BEGIN``), and
when it has measured (``END``), so that nobody stops a server while the other still measures. A
trial that has the host to itself meets nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from millrace.collect.collectors import Window
from millrace.host.cpuset import CpuPartition

Meet = Callable[[str], None]
"""Returns when the other trial is there too; the time limit is that of the step."""

READY, BEGIN, END = "ready", "begin", "end"

# Under this name the instances of a trial that was measured side by side carry how that was.
FACT = "concurrent"

# The steps of both sides have limits of their own, and one that fails ends both; this is for what
# hangs in spite of that.
LIMIT_S = 6 * 3600.0


def alone(_where: str) -> None:
    """The meeting of a trial that has the host to itself."""


class Measured:
    """When the measured part began and ended: seconds of the clock (CLOCK_MONOTONIC) that all
    processes of this host share."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._at_s: dict[str, float] = {}

    def see(self, event: Mapping[str, Any]) -> None:
        """Take an event of the load generator."""
        edge = self._window.edge(event)
        if edge is not None:
            self._at_s.setdefault(edge, time.monotonic())

    def fact(self, half: CpuPartition) -> dict[str, Any]:
        """Return what the instance's record keeps of it; empty where an edge did not come."""
        if self._at_s.keys() != {"begin", "end"}:
            return {}
        return {
            FACT: {
                "side": half.side,
                "cpus": list(half.cpus),
                "measured_from_s": self._at_s["begin"],
                "measured_to_s": self._at_s["end"],
            }
        }
