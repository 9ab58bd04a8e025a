"""Format and store the rates that benchmarks report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millrace.stats import proportion_limits


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


def rate_of(name: str, flags: Sequence[bool] | NDArray[np.bool_]) -> Rate:
    """Return the rate at which ``flags`` are true."""
    count, n = int(sum(flags)), len(flags)
    return Rate(name, count, n, count / n, *proportion_limits(count, n))
