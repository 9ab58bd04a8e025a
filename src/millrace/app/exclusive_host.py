"""Reserve the host for a use case that starts servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millrace.host.exclusive import host_lock
from millrace.model.events import Notice, OnEvent
from millrace.servers.instances import ownership
from millrace.servers.instances.signals import signals_as_errors


@contextmanager
def exclusive_host(purpose: str, on_event: OnEvent) -> Iterator[None]:
    """Reserve the host: refuse while another millrace measures, and clean up after a killed one.

    Raise UserError when the host is in use, and Interrupted inside the block on Ctrl-C or SIGTERM,
    so that the use case stops in order.
    """
    with signals_as_errors(), host_lock(purpose):
        for left in ownership.reap_orphans(on_event):
            on_event(Notice(f"ended what an earlier run left behind: {left}"))
        yield
