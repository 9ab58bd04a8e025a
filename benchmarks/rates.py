"""Format and store the rates that benchmarks report."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from millrace.stats.proportions import proportion_limits

AnyRate = TypeVar("AnyRate", bound="Rate")


@dataclass(frozen=True)
class Rate:
    """A rate: ``count`` of ``n``, with its 95 % interval."""

    name: str
    count: int
    n: int
    rate: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """Format as ``0.0480 (0.0412 to 0.0556) 192 of 4000``."""
        interval = f"{self.rate:.4f} ({self.low:.4f} to {self.high:.4f})"
        return f"{interval}  {self.count:6} of {self.n}"


def show(
    title: str, rates: Iterable[AnyRate], note: Callable[[AnyRate], str] = lambda _: ""
) -> list[AnyRate]:
    """Print rates, each with its note as soon as it is known, and return them."""
    print(f"\n{title}")
    shown = []
    for rate in rates:
        print(f"  {rate.name:66} {rate.text}{note(rate)}", flush=True)
        shown.append(rate)
    return shown


def rate_of(name: str, flags: Sequence[bool] | NDArray[np.bool_]) -> Rate:
    """Return the rate at which ``flags`` are true."""
    count, n = int(sum(flags)), len(flags)
    return Rate(name, count, n, count / n, *proportion_limits(count, n))
