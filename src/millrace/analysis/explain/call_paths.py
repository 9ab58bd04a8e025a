"""Call paths of two sides by their samples, and those that differ most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millrace.analysis.explain.call_tree import Frame, Key, Path, key_of
from millrace.stats import HolmMark, MeanEstimate

MOST_PATHS = 100

PathKey = tuple[Key, ...]
Stacks = Iterable[tuple[Path, int]]


@dataclass(frozen=True)
class PathDifference:
    """A call path, from the kind of thread and the outermost function on: its last function's own
    cost there in A and B, and B - A, in µs per operation; marked as functions are."""

    path: tuple[str, ...]
    a_us: float
    b_us: float
    difference: MeanEstimate
    adjusted_p: float | None
    significant: bool


class CountedPaths:
    """The samples of each call path in each trial of A and B; those whose frames are all the same
    function are the same path."""

    def __init__(self, a: Sequence[Stacks], b: Sequence[Stacks]) -> None:
        self._names: dict[PathKey, Path] = {}
        self.a, self.b = ([self._counted(stacks) for stacks in side] for side in (a, b))
        self.keys = sorted(self._names)

    def _counted(self, stacks: Stacks) -> Counter[PathKey]:
        found: Counter[PathKey] = Counter()
        for path, count in stacks:
            key = tuple(map(key_of, path))
            self._names.setdefault(key, path)
            found[key] += count
        return found

    def samples(self) -> list[int]:
        """Count the samples of each path, on both sides together."""
        return [sum(each[key] for each in (*self.a, *self.b)) for key in self.keys]

    def differing(
        self,
        a_us: NDArray[np.float64],
        b_us: NDArray[np.float64],
        differences: Sequence[MeanEstimate],
        marks: Sequence[HolmMark],
    ) -> tuple[PathDifference, ...]:
        """Return those that differ most, of all paths' costs and marks in the keys' order."""
        order = sorted(range(len(self.keys)), key=lambda n: -abs(differences[n].mean))
        return tuple(
            PathDifference(
                path=tuple(map(_text, self._names[self.keys[n]])),
                a_us=float(a_us[n]),
                b_us=float(b_us[n]),
                difference=differences[n],
                adjusted_p=marks[n].adjusted_p,
                significant=marks[n].significant,
            )
            for n in order[:MOST_PATHS]
        )


def _text(frame: Frame) -> str:
    """Return text such as ``library`symbol``, as folded text has it."""
    module, symbol = frame
    return f"{module}`{symbol}" if module else symbol
