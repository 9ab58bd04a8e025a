"""Ctrl-C and SIGTERM end a run in order: once as an exception, then not again while it cleans up."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from millrace.errors import Interrupted


@contextlib.contextmanager
def orderly() -> Iterator[None]:
    """Within this block the first SIGINT or SIGTERM raises Interrupted in the main thread.

    Later ones are ignored, so that an impatient second Ctrl-C does not break the clean-up; what a
    SIGKILL leaves behind is found by the next command that starts servers.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in handled:
            signal.signal(each, signal.SIG_IGN)
        name = signal.Signals(number).name
        raise Interrupted(
            f"stopped by {name}", remedy="the same command continues where it was stopped"
        )

    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
