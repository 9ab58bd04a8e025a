"""Narrow optional values for the type checker: each function asserts that they are there."""

from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Interval(Protocol):
    """An estimate with limits, such as a ratio or a mean."""

    @property
    def low(self) -> float | None:
        """The lower limit."""

    @property
    def high(self) -> float | None:
        """The upper limit."""


def known(value: _T | None) -> _T:
    """Return a value that is not None."""
    assert value is not None
    return value


def limits(estimate: Interval) -> tuple[float, float]:
    """Return the limits of an estimate that has an interval."""
    return known(estimate.low), known(estimate.high)
