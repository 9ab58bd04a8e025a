"""Identify the process that owns an attempt, so that another one knows whether it still runs."""

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
    """Return whether a process of this host, the owner, still runs; not one of an earlier boot."""
    return (
        owner.boot_id == processes.boot_id() and ProcessId(owner.pid, owner.started_ticks).exists()
    )
