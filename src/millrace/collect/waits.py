"""Collect a server's own totals between the marks: waits, statements and stages.

Each reading takes time while clients work, so the totals miss the first milliseconds of the window.
A time for one statement divides a row's total by the same row's count, not by the clients' count.

Cost: four or five queries at each mark, a few milliseconds in all; one session stays open. No
instrument of the server is switched on for this.
"""

from __future__ import annotations

import contextlib

from millrace.collect.model import MarkCollector, Observations, Target

NAME = "waits"


def collector(target: Target) -> MarkCollector[object]:
    """Create the collector of the totals. Raise Unavailable where the server refuses a session."""
    with contextlib.ExitStack() as opened:
        session = opened.enter_context(contextlib.closing(target.session()))
        statistics = target.instance.family.monitoring.wait_statistics(session, target.database)
        statistics.read()  # the first reading would take too long at the mark

        def compare(before: object, after: object) -> Observations:
            found = statistics.between(before, after)
            sections = {NAME: found.waits, "digests": found.digests, "stages": found.stages}
            return Observations(sections, found.missing)

        return MarkCollector(statistics.read, compare, opened.pop_all().close)
