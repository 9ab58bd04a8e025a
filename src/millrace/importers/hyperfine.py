"""Read hyperfine's JSON exports: each call of hyperfine is a block, each command a treatment.

Hyperfine repeats one command, then the next. Repeats of one call therefore share the state of the
host at that time and are not separate trials; their mean is one value. Versions 1 export that mean,
version 2 the single measurements.
"""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from millrace import safe_json
from millrace.errors import UserError
from millrace.importers.csv_reader import called, read_text
from millrace.importers.paired import Value
from millrace.importers.units import Measure
from millrace.safe_json import JsonRefused

MEASURE = Measure("s", "lower")
# Hyperfine exports each time that it measured.
_LIMITS = safe_json.Limits(size_bytes=64 << 20, values=4_000_000)
_HINT = "write the file with `hyperfine --export-json FILE COMMAND COMMAND ...`"


def read(paths: Sequence[Path]) -> tuple[Value, ...]:
    """Return the mean times in s of the commands in each file, the first file being block 1.

    Raises UserError for a file that is not from hyperfine, or that has a command twice.
    """
    return tuple(
        Value(str(block), command, mean_s)
        for block, path in enumerate(paths, 1)
        for command, mean_s in _means(path)
    )


def _means(path: Path) -> list[tuple[str, float]]:
    where = called(path)
    try:
        document = safe_json.parse(read_text(path), _LIMITS)
    except JsonRefused as error:
        raise UserError(f"{where} is not JSON ({error})", hint=_HINT) from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list) or not results:
        raise UserError(f"{where} has no results of hyperfine", hint=_HINT)
    means = [_mean(f"{where}, results[{number}]", result) for number, result in enumerate(results)]
    counts = Counter(name for name, _ in means)
    for name, count in counts.items():
        if count > 1:
            raise UserError(
                f"{where} has the command {name!r} twice",
                hint="tell them apart with `hyperfine --command-name`",
            )
    return means


def _mean(where: str, result: Any) -> tuple[str, float]:
    name = _entry(result, "name") or _entry(result, "command")
    if not isinstance(name, str):
        raise UserError(f"{where} has no command", hint=_HINT)
    measured = _entry(result, "measurements")
    if isinstance(measured, list) and measured:
        times = [_entry(_entry(each, "time_wall_clock"), "value") for each in measured]
    else:
        times = [_entry(result, "mean")]
    if not all(_is_time(s) for s in times):
        raise UserError(f"{where} ({name}) has no times", hint=_HINT)
    mean_s = fmean(times)
    if mean_s <= 0:
        raise UserError(f"{where} ({name}): a time of {mean_s:g} s has no ratio", hint=_HINT)
    return name, mean_s


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _entry(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
