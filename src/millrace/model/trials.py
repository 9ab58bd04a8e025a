"""The words for what trials are for and how they end."""

from typing import Literal

Purpose = Literal["measure", "control", "profile"]
"""A trial measures for verdicts, is one more trial of the base (control), or is profiled."""

Outcome = Literal["finished", "failed", "interrupted"]
"""An attempt finished, failed, or was stopped before it could do either."""
