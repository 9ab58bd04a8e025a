"""The records of a search for a level change: what it asks for, what it saw, and what it found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Search:
    """A search for the first of ``n_members`` members at a new level.

    Member 0 is known to have the old level, and the last one is suspected to have a new one.
    Changes up to the fraction ``margin`` do not matter to the user.
    """

    n_members: int
    confidence: float = 0.95
    margin: float = 0.02

    def __post_init__(self) -> None:
        if self.n_members < 2:
            raise ValueError("a change wants two members to be between")
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"a confidence of {self.confidence:g} is not from 0.5 to below 1")
        if self.margin < 0:
            raise ValueError("a margin is a fraction of 0 or more, such as 0.02")

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
    """A member that cannot be built or measured; the change may be at it."""

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
    """The result that the first member of the new level is one of ``first`` to ``last``.

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
    """The ends differ by the margin at most; ``ratio`` is the last one's level over the first's."""

    probability: float
    ratio: float
    low: float
    high: float
