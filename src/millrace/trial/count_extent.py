"""Choose how many transactions a counted start has: those of its sessions, and those before."""

import math
from dataclasses import dataclass

_READS_OF_A_PAGE = 14  # InnoDB has a page in its adaptive hash index after a sixteenth of its rows
_PAGE_BYTES = 16 << 10
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


def warming_for(data_bytes: int, extent: Extent) -> int:
    """Return the transactions after which each page of the data was read often; 0 for too many.

    An index of larger tables would not be finished, but hardly changes while statements are
    counted.
    """
    wanted = math.ceil(_READS_OF_A_PAGE * data_bytes / _PAGE_BYTES)
    return wanted if wanted <= _WARMING * extent.many else 0
