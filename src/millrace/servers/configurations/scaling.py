"""Sizes that scale with the data and the host.

A published configuration was made for one data set on one host. Its sizes keep their proportion to
the data when the data is smaller, and never take more of the host's memory than it has:

    size = min(published, max(minimum, per_data_byte x data))
    size = min(size, host_memory_share x memory of the host), but never below minimum

rounded (up; down at the host's limit) to 16M below 128M, to 128M below 1G and to 1G above, which
is the granularity of InnoDB's buffer pool, so that the server takes the value as it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace import sizes

_MIB = 1 << 20


def scaled(rule: Mapping[str, Any], *, data_bytes: int, host_memory_bytes: int) -> str:
    """The size a checked rule gives for this data and host, as an option takes it (``4G``)."""
    published, minimum = sizes.parse(rule["published"]), sizes.parse(rule["minimum"])
    size = min(published, max(minimum, _up(rule["per_data_byte"] * data_bytes)))
    share = rule.get("host_memory_share")
    if share is not None:
        size = max(minimum, min(size, _down(share * host_memory_bytes)))
    return sizes.exact(size)


def _grain(size: float) -> int:
    if size < 128 * _MIB:
        return 16 * _MIB
    return 128 * _MIB if size < 1024 * _MIB else 1024 * _MIB


def _up(size: float) -> int:
    grain = _grain(size)
    return -int(-size // grain) * grain


def _down(size: float) -> int:
    grain = _grain(size)
    return int(size // grain) * grain
