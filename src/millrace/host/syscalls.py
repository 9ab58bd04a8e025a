"""Look up system calls in which threads wait: names by number, and uses (syscalls.csv)."""

import csv
import functools
import os
from collections.abc import Mapping
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".csv")


@functools.cache
def names(architecture: str | None = None) -> Mapping[int, str]:
    """Return names by number on an architecture (``uname -m``); empty if it is unknown."""
    machine = architecture or os.uname().machine
    return {int(row[machine]): row["name"] for row in _rows() if row.get(machine)}


@functools.cache
def uses() -> Mapping[str, str]:
    """Return uses by name: lock, sync, read, write, send, receive, sleep, queue (asynchronous)."""
    return {row["name"]: row["use"] for row in _rows() if row["use"]}


def _rows() -> list[dict[str, str]]:
    with _TABLE.open(encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))
