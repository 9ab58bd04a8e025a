"""The host to ourselves, for every command that starts servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millrace.cli.console import err
from millrace.host.exclusive import host_lock
from millrace.servers.instances import processes
from millrace.servers.instances.signals import signals_as_errors
from millrace.servers.progress import Silent


class _Sayings(Silent):
    """Show what the user should read, such as that this command waits for another."""

    def say(self, text: str) -> None:
        err.print(text, markup=False)


@contextmanager
def quiet_host(purpose: str) -> Iterator[None]:
    """Refuse while another millrace measures, end what a killed one left, and stop in order.

    Raises UserError when the host is taken, and Interrupted inside the block on Ctrl-C or SIGTERM.
    """
    with signals_as_errors(), host_lock(purpose):
        for left in processes.reap_orphans(_Sayings()):
            err.print(f"ended what an earlier run left behind: {left}", markup=False)
        yield
