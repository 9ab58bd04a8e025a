"""Ctrl-C and SIGTERM become an exception, and never tear a clean-up apart."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from types import FrameType

from millrace.errors import Interrupted

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_WEAK_REFERENCES = ("_weakrefset.py", "weakref.py")
_AGAIN_S = 0.01


@contextmanager
def signals_as_errors() -> Iterator[None]:
    """Inside, an ending signal raises Interrupted in the main thread, so that ``finally`` runs.

    Does nothing outside of the main thread, which alone may handle signals. A signal that comes
    while Python tidies up, where an exception would be printed and forgotten, comes again.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _tidies_up(frame):
            main = threading.main_thread().ident
            again = threading.Timer(_AGAIN_S, signal.pthread_kill, (main, number))
            again.daemon = True
            again.start()
            return
        raise Interrupted(f"interrupted by {signal.Signals(number).name}")

    with _handled_by(interrupt):
        yield


def _tidies_up(frame: FrameType | None) -> bool:
    """Whether a finaliser or a callback of a weak reference is under way."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or PurePath(code.co_filename).name in _WEAK_REFERENCES:
            return True
        frame = frame.f_back
    return False


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
