"""What trials are for."""

from __future__ import annotations

from typing import Literal

Purpose = Literal["measure", "control", "profile"]
"""A trial measures for verdicts, is one more trial of the base (control), or is profiled."""
