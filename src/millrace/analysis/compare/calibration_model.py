"""The analysis of a calibration: plain values, read by reports and policies."""

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import DIFFERENCES, Verdict
from millrace.levels import Level
from millrace.model.measurements import Direction
from millrace.model.run_spec import Calibrates
from millrace.stats.proportions import proportion_limits, sign_test
from millrace.stats.ratio import RatioEstimate
from millrace.store.records import RunRecord

TABLE = (5, 10, 20, 40)
"""Numbers of blocks for which the smallest detectable change is reported."""


@dataclass(frozen=True)
class Pair:
    """The values of a block in which both trials finished."""

    block: int
    base: float
    other: float


@dataclass(frozen=True)
class SequentialVerdict:
    """A verdict on consecutive blocks, the last look's, or the reason why it was ``refused``."""

    verdict: Verdict
    estimate: RatioEstimate
    blocks: tuple[int, ...]
    refused: str = ""

    @property
    def excludes_1(self) -> bool:
        """Return whether the interval of the last look excludes no difference."""
        return self.estimate.excludes_1


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a block's log-ratio over A/A blocks, with its 95 % interval.

    ``trials_cv`` is the coefficient of variation of single trials, a fraction.
    """

    n_blocks: int
    log_sd: float
    low: float
    high: float
    trials_cv: float


@dataclass(frozen=True)
class InjectedSlowdown:
    """The verdicts on an injected slowdown, and the ratio over all of its blocks.

    ``stopped`` is the share of the time for which the server was stopped, None for other ways.
    """

    level: str
    verdicts: tuple[SequentialVerdict, ...]
    under_way: tuple[Pair, ...]
    estimate: RatioEstimate | None
    stopped: float | None
    failed: int = 0

    def found(self, direction: Direction) -> int:
        """Count the verdicts, not refused, whose interval says that the server is slower."""
        return sum(
            each.excludes_1
            and not each.refused
            and (each.estimate.ratio < 1) == (direction == "higher")
            for each in self.verdicts
        )


@dataclass(frozen=True)
class GroupCalibration:
    """One group: its A/A verdicts, the blocks of the open one, and its injected slowdowns.

    ``detectable`` maps numbers of blocks to the smallest relative change (a fraction) seen in them
    with power 0.8; empty where there are too few blocks to tell. ``block_s`` is the time of a block
    of two trials. ``treatments`` are the ids of A and of A under its other name; ``failed`` counts
    trials of theirs.
    """

    fixed_factors: Mapping[str, Level]
    label: str
    treatments: tuple[str, str]
    verdicts: tuple[SequentialVerdict, ...]
    under_way: tuple[Pair, ...]
    noise: Noise | None
    detectable: Mapping[int, float]
    block_s: float | None
    injected: tuple[InjectedSlowdown, ...]
    failed: int

    @property
    def false(self) -> int:
        """Return the number of A/A verdicts that call a difference."""
        return sum(each.verdict in DIFFERENCES for each in self.verdicts)

    @property
    def refused(self) -> int:
        """Return the number of A/A verdicts that were refused."""
        return sum(bool(each.refused) for each in self.verdicts)


@dataclass(frozen=True)
class Calibration:
    """A calibration as its trials have it so far; ``ended_utc`` is the end of its last trial."""

    run: RunRecord
    target: Calibrates
    metric: Metric
    groups: tuple[GroupCalibration, ...]
    ended_utc: str

    @property
    def verdicts(self) -> tuple[SequentialVerdict, ...]:
        return tuple(each for group in self.groups for each in group.verdicts)

    @property
    def false(self) -> int:
        return sum(group.false for group in self.groups)

    @property
    def refused(self) -> int:
        return sum(group.refused for group in self.groups)

    @property
    def excluding(self) -> int:
        """Return the number of A/A verdicts whose interval excludes 1, called different or not."""
        return sum(each.excludes_1 for each in self.verdicts)

    def limits(self, events: int) -> tuple[float, float] | None:
        """Return the 95 % interval of the rate of ``events`` among the verdicts, if any."""
        return proportion_limits(events, len(self.verdicts)) if self.verdicts else None

    @property
    def signs(self) -> tuple[int, int, float]:
        """Count the A/A estimates above and below 1, and test their balance."""
        above = sum(each.estimate.ratio > 1 for each in self.verdicts)
        below = sum(each.estimate.ratio < 1 for each in self.verdicts)
        return above, below, sign_test(above, above + below)

    def smallest(self, n_blocks: int) -> tuple[float, float] | None:
        """Return the smallest changes that blocks detect, in the quietest and noisiest group."""
        seen = [group.detectable[n_blocks] for group in self.groups if group.detectable]
        return (min(seen), max(seen)) if seen else None
