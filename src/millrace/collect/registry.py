"""List the collectors by name, in the order in which they look as the measured part begins.

At its end they look in reverse. Collectors that also look in between come last: they begin after
all others have looked, and end before the others look again. The window of thread usage lies inside
that of the collectors that query the server, because their queries are not the clients' work.
"""

from __future__ import annotations

from collections.abc import Mapping

from millrace.collect import (
    disk,
    host,
    plans,
    profile,
    sched_waits,
    status,
    thread_states,
    thread_usage,
    waits,
)
from millrace.collect.collectors import CollectorFactory

PROFILE = profile.NAME
"""The collector of profiled trials only: its cost must not affect a verdict."""

COLLECTORS: Mapping[str, CollectorFactory] = {
    module.NAME: module.collector
    for module in (
        plans,
        waits,
        status,
        disk,
        host,
        thread_usage,
        sched_waits,
        thread_states,
        profile,
    )
}
