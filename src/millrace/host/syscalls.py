"""System calls in which a server's threads wait: their numbers by architecture (syscalls.csv).

An architecture may lack a call of a name. The kernel never changes a number.
"""

from __future__ import annotations

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
    with _TABLE.open(encoding="ascii", newline="") as file:
        return {int(row[machine]): row["name"] for row in csv.DictReader(file) if row.get(machine)}
