"""List the collectors in the order in which they begin; they end in reverse.

Those that also work in between come last, inside of all others. Thread usage lies inside the
collectors that query the server: their queries are not the clients' work.
"""

from collections.abc import Mapping

from millrace.collect import (
    disk,
    host,
    plans,
    profile,
    sched_waits,
    server_totals,
    thread_states,
    thread_usage,
)
from millrace.collect.collectors import CollectorFactory

PROFILE = profile.NAME
"""The collector of profiled trials only: its cost must not affect a verdict."""

COLLECTORS: Mapping[str, CollectorFactory] = {
    plans.NAME: plans.collector,
    server_totals.WAITS: server_totals.waits,
    server_totals.STATUS: server_totals.StatusCollector,
    disk.NAME: disk.collector,
    host.NAME: host.collector,
    thread_usage.NAME: thread_usage.collector,
    sched_waits.NAME: sched_waits.collector,
    thread_states.NAME: thread_states.collector,
    PROFILE: profile.collector,
}
