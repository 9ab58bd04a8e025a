"""Test slowdowns as levels, written and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.experiment import slowdown
from millrace.experiment.slowdown import Stopped, slowdown_named, slowdown_of


@given(st.floats(0, 0.99))
def test_a_share_is_read_as_it_was_written_to_a_thousandth_of_a_per_cent(share: float) -> None:
    read = slowdown_named(Stopped(share).level)
    assert isinstance(read, Stopped)
    assert read.share == pytest.approx(share, abs=1e-5)


@given(st.integers(0, 10**7))
def test_a_delay_is_read_as_it_was_written(delay_us: int) -> None:
    assert slowdown_named(slowdown.SlowFsync(delay_us).level) == slowdown.SlowFsync(delay_us)


def test_anything_else_is_an_option() -> None:
    assert slowdown_named("sync_binlog=1") == slowdown.OptionGiven("sync_binlog", "1")
    assert slowdown_named("init_connect=SET a=1") == slowdown.OptionGiven("init_connect", "SET a=1")


@pytest.mark.parametrize("level", ["cpu", "cpu=100%", "cpu=3", "fsync=1ms", "slower", "=1"])
def test_what_is_none_is_refused(level: str) -> None:
    with pytest.raises(ValueError, match="not a slowdown"):
        slowdown_named(level)


def test_treatments_without_one_have_none() -> None:
    assert slowdown_of({"server": "mysql-5.6.24"}) is None
    assert slowdown_of({"slowdown": "none"}) is None
    assert slowdown_of({"slowdown": "cpu=5%"}) == Stopped(0.05)
