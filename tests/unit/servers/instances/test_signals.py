"""Test ending signals as exceptions."""

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


def test_a_signal_is_an_exception() -> None:
    with signals_as_errors(), pytest.raises(Interrupted, match="SIGTERM"):
        signal.raise_signal(signal.SIGTERM)


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


def test_a_signal_that_is_held_comes_at_the_end() -> None:
    reached = []

    def held() -> None:
        with signals_held():
            signal.raise_signal(signal.SIGINT)
            reached.append(True)

    with signals_as_errors(), pytest.raises(Interrupted):
        held()
    assert reached
