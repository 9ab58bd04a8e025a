"""Identify the process that runs an attempt, and check that it is still alive."""

from __future__ import annotations

import os

from millrace.servers.instances import processes
from millrace.servers.instances.processes import ProcessId
from millrace.store.records import Owner


def this_process(host_id: str) -> Owner:
    """Return this process as the owner of attempts."""
    process = ProcessId.of(os.getpid())
    assert process is not None
    return Owner(host_id, processes.boot_id(), process.pid, process.started_ticks)


def is_alive(owner: Owner) -> bool:
    """Return whether the owner's process still runs; a process of an earlier boot does not.

    Use it for owners on this host: a run resumes only on the host where it started.
    """
    return (
        owner.boot_id == processes.boot_id() and ProcessId(owner.pid, owner.started_ticks).exists()
    )
