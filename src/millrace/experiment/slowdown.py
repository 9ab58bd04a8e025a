"""Define the factor ``slowdown``: slowdowns that a calibration injects into a server.

| level           | effect on the server                                                   |
|-----------------|------------------------------------------------------------------------|
| ``none``        | nothing                                                                |
| ``again``       | nothing, under another name: compared with ``none``, this is A/A       |
| ``cpu=3.2%``    | the server is stopped for this share of the measured time              |
| ``fsync=500us`` | each fsync and fdatasync takes this much longer                        |
| ``NAME=VALUE``  | the server runs with this option                                       |
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from millrace.levels import Level

FACTOR = "slowdown"
NONE, AGAIN = "none", "again"
CPU, FSYNC = "cpu", "fsync"

_SHARE = re.compile(r"(\d+(?:\.\d+)?)%")
_DELAY = re.compile(r"(\d+)us")


@dataclass(frozen=True)
class Stopped:
    """A stop of the server for this ``share`` of the time, from 0 to below 1."""

    share: float

    @property
    def level(self) -> str:
        return f"{CPU}={round(100 * self.share, 3):g}%"


@dataclass(frozen=True)
class SlowFsync:
    """A delay of ``delay_us`` microseconds in each fsync and fdatasync of the server."""

    delay_us: int

    @property
    def level(self) -> str:
        return f"{FSYNC}={self.delay_us}us"


@dataclass(frozen=True)
class OptionGiven:
    """An option set on the server."""

    name: str
    value: str

    @property
    def level(self) -> str:
        return f"{self.name}={self.value}"


Slowdown = Stopped | SlowFsync | OptionGiven


def slowdown_of(levels: Mapping[str, Level]) -> Slowdown | None:
    """Return the slowdown of a treatment, from its resolved levels; None if it has none."""
    level = levels.get(FACTOR, NONE)
    return None if level == NONE else slowdown_named(str(level))


def slowdown_named(level: str) -> Slowdown:
    """Return the slowdown that a level describes; raise ValueError for an invalid level."""
    name, equals, value = level.partition("=")
    share, delay = _SHARE.fullmatch(value), _DELAY.fullmatch(value)
    if name == CPU and share is not None and float(share[1]) < 100:
        return Stopped(float(share[1]) / 100)
    if name == FSYNC and delay is not None:
        return SlowFsync(int(delay[1]))
    if not equals or not name or name in (CPU, FSYNC):
        raise ValueError(f"{level!r} is not a slowdown")
    return OptionGiven(name, value)
