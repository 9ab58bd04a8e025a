"""The observers there are, by name, in the order in which they look."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.observe import disk, host, plans, profile, states, status, threads, waits
from millrace.observe.collecting import Make

PROFILE = profile.NAME
"""The observer of profiled trials alone: what it costs must not be in a verdict."""

OBSERVERS: Mapping[str, Make] = {
    module.NAME: module.observer
    for module in (profile, states, threads, host, disk, status, waits, plans)
}
