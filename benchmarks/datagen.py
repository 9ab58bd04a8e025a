"""Measure the speed of row generation against `cat` of the same bytes from the page cache.

Both write to a pipe of 1 MiB that this process drains with read(2) into one buffer of 1 MiB, the
least work of any reader of a pipe. They take turns (A B A B ...), so that drift of the machine
affects both. A rate is the number of bytes over the time from the start of the process to the end
of its output. `cat` generates nothing: it is the ceiling of the pipe.
"""

import argparse
import fcntl
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import json_file
from millrace.loadgen.datasets import write_data_file
from millrace.loadgen.program import find_load_generator

SEED = 171773
BUFFER_BYTES = 1 << 20
DRAIN = "read(2) into a buffer of 1 MiB from a pipe of 1 MiB"


@dataclass(frozen=True)
class Pair:
    """One measurement of each: bytes per second, and their ratio made / cat."""

    datagen_bytes_per_s: float
    cat_bytes_per_s: float
    ratio: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="80 MB and 3 pairs, for a first look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    rows, pairs = (1_000_000, 3) if arguments.quick else (12_000_000, 9)
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        path = Path(file.name)
        write_data_file(path, "nodes", rows, SEED)
        result = measure(path, rows, pairs)
    report(result)
    json_file.write(arguments.json, "datagen", **result)


def measure(path: Path, rows: int, pairs: int) -> dict[str, Any]:
    """Run the pairs; return rates in bytes per second."""
    size_bytes = path.stat().st_size
    generator = str(find_load_generator())
    generate = [generator, "data", "nodes", "--rows", str(rows), "--seed", str(SEED)]
    copy = ["cat", str(path)]
    rate(copy, size_bytes)  # brings the file into the page cache
    rate(generate, size_bytes)
    measured = []
    for _ in range(pairs):
        made = rate(generate, size_bytes)
        copied = rate(copy, size_bytes)
        measured.append(Pair(made, copied, made / copied))
    return {
        "drain": DRAIN,
        "rows": rows,
        "bytes": size_bytes,
        "datagen_bytes_per_s": spread([pair.datagen_bytes_per_s for pair in measured]),
        "cat_bytes_per_s": spread([pair.cat_bytes_per_s for pair in measured]),
        "ratio": spread([pair.ratio for pair in measured]),
        "pairs": [asdict(pair) for pair in measured],
    }


def rate(command: Sequence[str], expected_bytes: int) -> float:
    """Return bytes per second of a command's output; exit when its length is not as expected."""
    reader, writer = os.pipe()
    buffer = bytearray(BUFFER_BYTES)
    total = 0
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, BUFFER_BYTES)
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=writer)
    finally:
        os.close(writer)
    try:
        while count := os.readv(reader, [buffer]):
            total += count
        elapsed_s = time.perf_counter() - started
    finally:
        os.close(reader)
        status = process.wait()
    if status != 0 or total != expected_bytes:
        sys.exit(f"{command[0]}: status {status}, {total} bytes where {expected_bytes} were due")
    return total / elapsed_s


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def report(result: dict[str, Any]) -> None:
    print(
        f"{result['rows']:,} rows, {result['bytes']:,} bytes, {len(result['pairs'])} pairs, "
        f"{len(os.sched_getaffinity(0))} processors; drain: {result['drain']}"
    )
    for name, key in (("millrace-load data nodes", "datagen"), ("cat", "cat")):
        low, median, high = (
            result[f"{key}_bytes_per_s"][what] / 1e9 for what in ("low", "median", "high")
        )
        print(f"{name:25} {median:6.2f} GB/s  ({low:.2f} to {high:.2f})")
    low, median, high = (result["ratio"][what] for what in ("low", "median", "high"))
    print(f"{'made / cat':25} {median:6.2f}       ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
