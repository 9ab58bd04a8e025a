"""Choose how many transactions a counted start has: those of its sessions, and those before."""

from dataclasses import dataclass

_WARMING = 50  # times the transactions of a session, at most
_SESSION_S = 8.0


@dataclass(frozen=True)
class Extent:
    """The transactions of the two sessions of a repetition."""

    few: int
    many: int


EXTENTS = tuple(Extent(many // 6, many) for many in (480, 180, 60, 24, 6))
"""The extents to choose from: servers are compared by the same transactions."""


def extent_for(transaction_s: float) -> Extent:
    """Return the largest extent that takes little time, by a counted transaction's CPU seconds."""
    short = (each for each in EXTENTS if each.many * transaction_s <= _SESSION_S)
    return next(short, EXTENTS[-1])


def extent_of(transactions: int) -> Extent | None:
    """Return the extent whose longer sessions have this number of transactions, if any."""
    return next((each for each in EXTENTS if each.many == transactions), None)


def warming_for(index_reads: int, extent: Extent) -> int:
    """Return the transactions that complete an index that takes ``index_reads``; 0 for too many.

    An index of larger tables would not be complete, but hardly changes while statements are
    counted.
    """
    return index_reads if index_reads <= _WARMING * extent.many else 0
