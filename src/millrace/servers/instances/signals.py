"""Turn Ctrl-C and SIGTERM into an exception that never interrupts a clean-up."""

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
    """Raise Interrupted in the main thread on SIGINT or SIGTERM, so that ``finally`` runs.

    Do nothing outside the main thread, which alone may handle signals. In a finaliser Python would
    print and drop the exception, so a signal during one is sent again later.
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
    """Return whether a finaliser or a callback of a weak reference is running."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or PurePath(code.co_filename).name in _WEAK_REFERENCES:
            return True
        frame = frame.f_back
    return False


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the end of the block, and then deliver the first one."""
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
            # An ignored signal (nohup) stays ignored.
            if known is not signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


def ending(status: int) -> str:
    """Return how a process ended, in words."""
    if status < 0:
        return f"ended by signal {-status} ({signal.Signals(-status).name})"
    return f"ended with exit status {status}"
