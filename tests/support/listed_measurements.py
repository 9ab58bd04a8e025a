"""Find the entry of the list of measurements that a name has."""

from __future__ import annotations

import re

from millrace.model.measurements import MEASUREMENTS, Measurement


def measurement(name: str) -> Measurement | None:
    """Return what is measured under a name; None for a name that is not in the list."""
    exact = next((each for each in MEASUREMENTS if each.name == name), None)
    return exact or next((each for each in MEASUREMENTS if _is_named(each, name)), None)


def _is_named(listed: Measurement, name: str) -> bool:
    """Return whether a measurement has this name, for any phase, table or code."""
    pattern = re.escape(listed.name).replace(r"\{code\}", r"\d+")
    pattern = re.sub(r"\\{(?:phase|table)\\}", r"\\w+", pattern)
    return re.fullmatch(pattern, name) is not None
