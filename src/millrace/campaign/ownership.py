"""Who runs an attempt, and whether that process is still there."""

from __future__ import annotations

import os

from millrace.servers.instances import processes
from millrace.servers.instances.processes import ProcessId
from millrace.store.records import Owner


def this_process(host_id: str) -> Owner:
    """This process as the owner of attempts."""
    process = ProcessId.of(os.getpid())
    assert process is not None
    return Owner(host_id, processes.boot_id(), process.pid, process.started_ticks)


def is_alive(owner: Owner) -> bool:
    """Whether the process still runs; one of an earlier boot does not.

    Meant for owners of this host: a run is continued only where it was begun.
    """
    return (
        owner.boot_id == processes.boot_id() and ProcessId(owner.pid, owner.started_ticks).exists()
    )
