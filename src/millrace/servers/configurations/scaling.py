"""Scale sizes with the data and the host.

A published configuration was written for one data set on one host. With smaller data, its sizes
keep their proportion to the data. They never exceed a share of the host's memory:

    size = min(published, max(minimum, per_data_byte x data))
    size = min(size, host_memory_share x memory of the host), but never below minimum

Sizes are rounded (up; down at the host's limit) to 16M below 128M, to 128M below 1G and to 1G
above, the granularity of InnoDB's buffer pool, so that the server does not adjust the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace import sizes

_MIB = 1 << 20


def scaled(rule: Mapping[str, Any], *, data_bytes: int, host_memory_bytes: int) -> str:
    """Return the size that a checked rule yields for this data and host.

    The size is an option's value, such as ``4G``.
    """
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
