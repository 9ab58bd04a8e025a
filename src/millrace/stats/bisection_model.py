"""Define the records of a search for a level change: parameters, measurements and results."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Search:
    """A search for the first of ``n_members`` members at a new level.

    Member 0 is known to have the old level; the last member is suspected to have a new level.
    Changes up to the fraction ``margin`` are irrelevant.
    """

    n_members: int
    confidence: float = 0.95
    margin: float = 0.02

    def __post_init__(self) -> None:
        if self.n_members < 2:
            raise ValueError("a search for a change needs at least two members")
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence must be from 0.5 to below 1, not {self.confidence:g}")
        if self.margin < 0:
            raise ValueError("a margin must be a fraction of at least 0, such as 0.02")

    @property
    def ends(self) -> tuple[int, int]:
        return 0, self.n_members - 1


@dataclass(frozen=True)
class Measured:
    """The logarithm of a member's value over that of a reference build in the same block."""

    index: int
    value: float


@dataclass(frozen=True)
class Skipped:
    """A member that cannot be built or measured; it may still be the first of the new level."""

    index: int


@dataclass(frozen=True)
class Posterior:
    """Probabilities of the position of the change.

    ``first[i]`` is the probability that member *i* is the first of the new level, ``none`` that
    of no change; they sum to 1.
    """

    first: tuple[float, ...]
    none: float


@dataclass(frozen=True)
class Next:
    """The next member to measure; ``posterior`` is None until both ends have their first runs."""

    index: int
    posterior: Posterior | None


@dataclass(frozen=True)
class Found:
    """A result: the first member of the new level is one of ``first`` to ``last``.

    The two are equal unless members were skipped. ``ratio`` is the new level over the old one, with
    its interval.
    """

    first: int
    last: int
    probability: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class NoChange:
    """A result: the ends differ by at most the margin; ``ratio`` is last over first level."""

    probability: float
    ratio: float
    low: float
    high: float
