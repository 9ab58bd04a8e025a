"""Define what the analysis of instruction counts returns. All counts are per statement."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from millrace.levels import Level
from millrace.model.instruction_counts import CallPath, Program
from millrace.stats.ratio import RatioEstimate

Verdict = Literal["more", "fewer", "no difference shown", "single start", "refused"]


@dataclass(frozen=True)
class TreatmentCount:
    """The count of a treatment.

    ``values`` are the medians of the repetitions of each start that counts; ``spread`` is their
    standard deviation as a fraction of their mean, None for a single one. ``left_out`` starts
    failed or had unequal repetitions. ``background`` are instructions of threads that serve no
    client. ``transactions`` are those of a session. ``refusal`` says why no count can be
    compared. ``paths`` are means over the starts that count, ``files`` the program or library of a
    function.
    """

    levels: Mapping[str, Level]
    label: str
    values: tuple[float, ...]
    left_out: int
    background: float | None
    transactions: int | None
    program: Program | None
    refusal: str | None = None
    paths: Mapping[CallPath, float] = field(default_factory=dict, repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        if self.mean is None or len(self.values) < 2:
            return None
        return statistics.stdev(self.values) / self.mean


@dataclass(frozen=True)
class FunctionDifference:
    """A function with all that it calls, below callers that both sides have.

    It differs in a number of ``places``; the ``callers`` are those of the largest difference.
    ``only`` is the side that alone has it. The difference is then without callees that the other
    side calls there without it.
    """

    name: str
    file: str | None
    callers: tuple[str, ...]
    a: float
    b: float
    difference: float
    only: Literal["A", "B"] | None = None
    places: int = 1


@dataclass(frozen=True)
class CountComparison:
    """A candidate (B) against the base (A); ``ratio`` is candidate / base."""

    base: TreatmentCount
    candidate: TreatmentCount
    verdict: Verdict
    ratio: RatioEstimate | None = None
    functions: tuple[FunctionDifference, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CountGroup:
    """The treatments with the same fixed levels, and the comparisons with their base."""

    label: str
    counts: tuple[TreatmentCount, ...]
    comparisons: tuple[CountComparison, ...]
