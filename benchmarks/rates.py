"""How often something happened, as benchmarks tell and write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millrace.stats import proportion_limits


@dataclass(frozen=True)
class Rate:
    """How often something happened: ``count`` of ``n``, with the 95 % interval of the rate."""

    name: str
    count: int
    n: int
    rate: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """``0.0480 (0.0412 to 0.0556)     192 of 4000``."""
        interval = f"{self.rate:.4f} ({self.low:.4f} to {self.high:.4f})"
        return f"{interval}  {self.count:6} of {self.n}"


def rate_of(name: str, flags: Sequence[bool] | NDArray[np.bool_]) -> Rate:
    """The rate at which ``flags`` are true."""
    count, n = int(sum(flags)), len(flags)
    return Rate(name, count, n, count / n, *proportion_limits(count, n))
