"""Name how certain a cause of a difference is."""

from enum import Enum


class Certainty(Enum):
    """The certainty of a cause."""

    SHOWN = "shown"
    """An experiment showed it."""

    LIKELY = "likely"
    """Some of the evidence is its own, such as its counters or functions."""

    POSSIBLE = "possible"
    """It could affect the part of the time that moved, but none of the evidence is its own."""

    FACT = "fact"
    """It differs, whatever the times do."""

    FACT_AGAINST = "fact against"
    """It differs, and costs the side that looks faster."""

    @property
    def is_fact(self) -> bool:
        return self in (Certainty.FACT, Certainty.FACT_AGAINST)
