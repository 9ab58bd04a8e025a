"""Read the output of sysbench and pgbench: transactions per second, one value a file.

The output does not name the treatment, so the file name does: TREATMENT-BLOCK, as in ``old-1.log``
and ``new-1.log``.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from millrace.errors import UserError
from millrace.importers.csv_reader import read_text
from millrace.importers.paired import Value
from millrace.importers.units import Measure

MEASURE = Measure("transactions/s", "higher")
Program = Literal["pgbench", "sysbench"]

_NUMBER = r"([0-9.eE+-]+|nan|inf)"
_RATES: dict[Program, tuple[re.Pattern[str], ...]] = {
    # Without the connection time, as PostgreSQL 14 and later print it. Earlier versions print both;
    # the second is the one without.
    "pgbench": (
        re.compile(rf"^tps = {_NUMBER} ?\(without initial connection time\)", re.MULTILINE),
        re.compile(rf"^tps = {_NUMBER} ?\(excluding connections establishing\)", re.MULTILINE),
        re.compile(rf"^tps = {_NUMBER} ?\(including reconnection times\)", re.MULTILINE),
    ),
    "sysbench": (
        re.compile(rf"^[ \t]*transactions:\s+\d+\s+\({_NUMBER} per sec\.\)", re.MULTILINE),
        re.compile(rf"^[ \t]*events per second:\s+{_NUMBER}", re.MULTILINE),
    ),
}
_NAME = re.compile(r"(?P<treatment>.+)[-_.](?P<block>[0-9]+)")


def read(program: Program, paths: Sequence[Path]) -> tuple[Value, ...]:
    """Return the transactions per second in each file.

    Raises UserError for a file without them, or with the rates of several runs, for names without
    treatment and block, and for two files of the same treatment and block.
    """
    first_paths: dict[tuple[str, str], Path] = {}
    found = []
    for path in paths:
        block, treatment = _trial(path)
        other = first_paths.setdefault((block, treatment), path)
        if other is not path:
            raise UserError(
                f"{other} and {path} are both of {treatment} in block {block}",
                hint="give each trial a number of its own",
            )
        found.append(Value(block, treatment, _rate(program, path)))
    return tuple(found)


def _trial(path: Path) -> tuple[str, str]:
    name = _NAME.fullmatch(path.name) or _NAME.fullmatch(path.stem)
    if name is None:
        raise UserError(
            f"the name of {path} does not tell which treatment and which block it is of",
            hint="call the files TREATMENT-BLOCK, such as old-1.log and new-1.log",
        )
    return str(int(name["block"])), name["treatment"]


def _rate(program: Program, path: Path) -> float:
    text = read_text(path)
    hint = f"keep all that one run of {program} prints in a file of its own"
    for pattern in _RATES[program]:
        rates = pattern.findall(text)
        if len(rates) > 1:
            raise UserError(f"{path} has the rates of {len(rates)} runs", hint=hint)
        if rates:
            return _positive(path, rates[0], hint)
    raise UserError(f"{path} has no transactions per second of {program}", hint=hint)


def _positive(path: Path, text: str, hint: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not (math.isfinite(rate) and rate > 0):
        raise UserError(
            f"{path}: {text} transactions per second have no ratio; did the run fail?", hint=hint
        )
    return rate
