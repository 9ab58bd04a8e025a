"""Compare a host's environment and load generator with those at the start of a run.

A reboot, an update or a setting changes the environment; all trials of a block share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millrace.store.records import HostRecord, RunRecord

_WATCHED_VERSIONS = ("load_generator", "data")


def changes(run: RunRecord, host: HostRecord, versions: Mapping[str, str]) -> Iterator[str]:
    """Yield the differences from the start of the run, each in words."""
    for name in _WATCHED_VERSIONS:
        if run.versions.get(name) != versions.get(name):
            label = name.replace("_", " ")
            yield f"the {label} was {run.versions.get(name)} and is {versions.get(name)}"
    state = host.state()
    for name, before in run.host.state().items():
        if before != state[name]:
            yield f"{name} was {before} and is {state[name]}"
