"""Ctrl-C and SIGTERM become an exception, and never tear a clean-up apart."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from millrace.errors import Interrupted

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_as_errors() -> Iterator[None]:
    """Inside, an ending signal raises Interrupted in the main thread, so that ``finally`` runs.

    Does nothing outside of the main thread, which alone may handle signals.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(f"interrupted by {signal.Signals(number).name}")

    with _handled_by(interrupt):
        yield


@contextmanager
def signals_held() -> Iterator[None]:
    """Inside, ending signals wait; the first one is delivered at the end."""
    waiting: list[int] = []
    try:
        with _handled_by(lambda number, _frame: waiting.append(number)):
            yield
    finally:
        if waiting:
            signal.raise_signal(waiting[0])


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    try:
        for number, known in before.items():
            # A signal that is ignored (nohup) stays ignored.
            if known is not signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)
