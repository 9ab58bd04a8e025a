"""System calls in which a server's threads wait: their numbers by architecture, and their use.

They are in syscalls.csv. An architecture may lack a call. The kernel never changes a number.
"""

import csv
import functools
import os
from collections.abc import Mapping
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".csv")


@functools.cache
def names(architecture: str | None = None) -> Mapping[int, str]:
    """Return the names of the system calls by number.

    ``architecture`` is a name as ``uname -m`` prints it, by default that of this host. The result
    is empty where the numbers of the architecture are unknown.
    """
    machine = architecture or os.uname().machine
    return {int(row[machine]): row["name"] for row in _rows() if row.get(machine)}


@functools.cache
def uses() -> Mapping[str, str]:
    """Return the uses of system calls by name.

    They are lock, sync, read, write, send, receive (or wait for it), sleep, and queue (of
    asynchronous reads and writes).
    """
    return {row["name"]: row["use"] for row in _rows() if row["use"]}


def _rows() -> list[dict[str, str]]:
    with _TABLE.open(encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))
