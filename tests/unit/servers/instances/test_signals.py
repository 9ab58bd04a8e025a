import os
import signal
import time
import weakref

import pytest

from millrace.errors import Interrupted
from millrace.servers.instances.signals import signals_as_errors, signals_held


class Tidied:
    """An object that sends this process a signal when it is deleted."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def wait_to_be_interrupted() -> None:
    for _ in range(1000):
        time.sleep(0.01)


def test_a_signal_that_comes_in_a_finaliser_is_not_lost() -> None:
    with signals_as_errors():
        Tidied()
        with pytest.raises(Interrupted, match="SIGTERM"):
            wait_to_be_interrupted()


def test_a_signal_that_comes_in_a_callback_of_a_weak_reference_is_not_lost() -> None:
    class Known:
        pass

    with signals_as_errors():
        weakref.finalize(Known(), signal.raise_signal, signal.SIGINT)
        with pytest.raises(Interrupted, match="SIGINT"):
            wait_to_be_interrupted()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_ending_signal_becomes_an_error(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def work() -> None:
        with signals_as_errors():
            os.kill(os.getpid(), number)
            time.sleep(5)

    with pytest.raises(Interrupted, match=number.name):
        work()
    assert signal.getsignal(number) is before


def test_a_clean_up_is_not_torn_apart() -> None:
    done = []

    def work() -> None:
        with signals_as_errors():
            with signals_held():
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
                done.append("cleaned up")
            done.append("not reached")

    with pytest.raises(Interrupted, match="SIGTERM"):
        work()
    assert done == ["cleaned up"]
