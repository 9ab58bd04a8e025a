"""Find the entry of the list of measurements that a name has."""

import re

from millrace.model.measurements import MEANINGS


def listed(name: str) -> str | None:
    """Return the entry of a measurement, for any phase, table or code; None where it has none."""
    return name if name in MEANINGS else next((e for e in MEANINGS if _is_named(e, name)), None)


def _is_named(entry: str, name: str) -> bool:
    pattern = re.escape(entry).replace(r"\{code\}", r"\d+")
    pattern = re.sub(r"\\{(?:phase|table)\\}", r"\\w+", pattern)
    return re.fullmatch(pattern, name) is not None
