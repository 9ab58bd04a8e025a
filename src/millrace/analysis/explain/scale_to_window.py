"""Sections and figures of an observations document, and amounts of a part of its window made those
of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Amounts that are counted between two readings, by section; of the host's, those in s.
_COUNTED = ("threads", "disk", "host", "status", "waits")
_OF_WAITS = ("digests", "stages")  # sections that ``waits`` reads in the same go
_NO_AMOUNTS = frozenset(
    ("late_s", "tid", "pid", "gauges", "metric_gauges", "memory", "frequency_mhz", "server_limits")
)


def section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of a document; empty where it has none."""
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def number(values: Mapping[str, Any], name: str) -> float | None:
    """Return a figure; None where it is not there, or none."""
    value = values.get(name)
    return None if value is None or isinstance(value, bool | str) else float(value)


def scale_to_window(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document with each section scaled to its whole window.

    A section whose first reading was late missed as much as it counted in a time of equal length.
    """
    window_s = number(document, "window_s")
    if window_s is None:
        return document
    found = dict(document)
    for name in _COUNTED:
        late_s = number(section(document, name), "late_s")
        if late_s is None or not 0 < late_s < window_s:
            continue
        factor = window_s / (window_s - late_s)
        for each in (name, *_OF_WAITS) if name == "waits" else (name,):
            if each in document:
                found[each] = _times(document[each], factor, seconds_only=name == "host")
    return found


def _times(value: Any, factor: float, *, seconds_only: bool, key: str = "") -> Any:
    """Return a section with its amounts multiplied."""
    if isinstance(value, Mapping):
        return {
            name: each
            if name in _NO_AMOUNTS
            else _times(each, factor, seconds_only=seconds_only, key=name)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_times(each, factor, seconds_only=seconds_only, key=key) for each in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return value if seconds_only and not key.endswith("_s") else value * factor
