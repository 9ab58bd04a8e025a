"""The observers there are, by name, in the order in which they look where the measured part begins;
where it ends it is the reverse.

What looks now and again in between comes last: it begins when all have looked, and ends before the
others do. What threads did is read inside of what is asked of the server, whose work is not the
clients'.
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
"""The observer of profiled trials alone: what it costs must not be in a verdict."""

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
