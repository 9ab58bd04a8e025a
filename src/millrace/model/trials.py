"""The words for what trials are for and how they end."""

from typing import Literal

Purpose = Literal["measure", "control", "profile", "count"]
"""The purpose of a trial.

It measures for verdicts, is one more trial of the base (control), is profiled, or has its
instructions counted.
"""

Outcome = Literal["finished", "failed", "interrupted"]
"""An attempt finished, failed, or was stopped before it could do either."""


def kind_of_block(purpose: Purpose) -> Purpose:
    """Return the kind of blocks that trials are in.

    Profiled and counted trials have blocks of their own, after all others.
    """
    return purpose if purpose in ("profile", "count") else "measure"


def is_in_measured_block(purpose: Purpose) -> bool:
    """Return whether a trial is in a block of comparisons, as A/A trials are too."""
    return kind_of_block(purpose) == "measure"
