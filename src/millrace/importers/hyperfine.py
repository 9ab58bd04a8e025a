"""Read hyperfine's JSON exports: each call of hyperfine is a block, each command a treatment.

Hyperfine repeats one command, then the next. Repeats within a call therefore share the state of the
host at that time and are not separate trials; their mean is one value. Hyperfine 1 exports the
mean, hyperfine 2 the single times. A command with a non-zero exit status (``--ignore-failure``) is
refused: its time is the time of a failure.
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
from millrace.importers.paired import Imported, Value
from millrace.importers.text_output import digest_of, refuse_equal
from millrace.importers.units import Measure
from millrace.quantities import counted
from millrace.safe_json import JsonRefused

MEASURE = Measure("s", "lower")
# Hyperfine exports each time that it measured.
_LIMITS = safe_json.Limits(size_bytes=64 << 20, values=4_000_000)
_MOST_SHOWN = 5
_HINT = "write the file with `hyperfine --export-json FILE COMMAND COMMAND ...`"


def read(paths: Sequence[Path]) -> Imported:
    """Return the mean time in s of each command in each file; the first file is block 1.

    Raise UserError for a file that is not from hyperfine, has a command twice or has a failed
    command, and for files with equal contents.
    """
    values = []
    digests = []
    for block, path in enumerate(paths, 1):
        text = read_text(path)  # once, since a pipe is empty afterwards
        values += [Value(str(block), command, mean_s) for command, mean_s in _means(path, text)]
        digests.append((path, digest_of(text)))
    refuse_equal(digests)
    return Imported(tuple(values), MEASURE)


def _means(path: Path, text: str) -> list[tuple[str, float]]:
    where = called(path)
    try:
        document = safe_json.parse(text, _LIMITS)
    except JsonRefused as error:
        raise UserError(f"{where} is not JSON ({error})", hint=_HINT) from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list) or not results:
        raise UserError(f"{where} has no results of hyperfine", hint=_HINT)
    means = [_mean(f"{where}, results[{number}]", result) for number, result in enumerate(results)]
    counts = Counter(name for name, _ in means)
    if max(counts.values()) > 1:  # a parameter scan has the same name for all commands
        means = [
            (f"{name}{_parameters(result)}", mean_s)
            for (name, mean_s), result in zip(means, results, strict=True)
        ]
        counts = Counter(name for name, _ in means)
    for name, count in counts.items():
        if count > 1:
            raise UserError(
                f"{where} has the command {name!r} twice",
                hint="give each command a different name with `hyperfine --command-name`",
            )
    return means


def _mean(where: str, result: Any) -> tuple[str, float]:
    name = _entry(result, "name") or _entry(result, "command")
    if not isinstance(name, str):
        raise UserError(f"{where} has no command", hint=_HINT)
    measured = _entry(result, "measurements")
    _refuse_failures(f"{where} ({name})", result, measured)
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


def _refuse_failures(where: str, result: Any, measured: Any) -> None:
    """Raise UserError if an exit status is not 0; a killed command has the status null."""
    statuses = _entry(result, "exit_codes")
    if not isinstance(statuses, list):
        each = measured if isinstance(measured, list) else []
        statuses = [
            one["exit_code"] for one in each if isinstance(one, dict) and "exit_code" in one
        ]
    failed = [status for status in statuses if status != 0 or isinstance(status, bool)]
    if not failed:
        return
    exited = [str(status) for status in failed if status is not None]
    how = []
    if exited:
        more = ", ..." if len(exited) > _MOST_SHOWN else ""
        how.append(f"exit status {', '.join(exited[:_MOST_SHOWN])}{more}")
    if len(exited) < len(failed):
        how.append("killed by a signal")
    raise UserError(
        f"{where} failed in {len(failed)} of {counted(len(statuses), 'run')}: {'; '.join(how)}",
        hint="correct the command and measure again without --ignore-failure; if a non-zero status "
        "is right, let the command exit with 0 instead",
    )


def _parameters(result: Any) -> str:
    """Return the parameters of a command as text, such as `` (threads=8)``; empty without any."""
    parameters = _entry(result, "parameters")
    if not isinstance(parameters, dict) or not parameters:
        return ""
    return f" ({', '.join(f'{name}={value}' for name, value in parameters.items())})"


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _entry(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
