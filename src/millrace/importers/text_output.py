"""Read the output of sysbench, pgbench, mysqlslap and HammerDB: one value per file.

The output does not name the treatment, so the file name does: TREATMENT-BLOCK, as in ``old-1.log``
and ``new-1.log``. A value depends on threads, scale and duration as much as on the server, so files
that differ in a reported setting are refused. Different versions of the program cause only a note,
because each version of a server comes with its own version of the program. The modules
``sysbench``, ``pgbench``, ``mysqlslap`` and ``hammerdb`` parse the output of their program.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from millrace.errors import UserError
from millrace.importers.csv_reader import read_text
from millrace.importers.paired import Counts, Imported, Value
from millrace.importers.units import Measure
from millrace.quantities import counted

_NAME = re.compile(r"(?P<treatment>.+)[-_.](?P<block>[0-9]+)")
_SAME_DURATION = 1.2  # largest ratio of two durations that a stall or a late end explains
_MOST_LISTED = 3


@dataclass(frozen=True)
class Output:
    """The result of one run, as the program reported it.

    ``number`` is the value as text and ``measure`` its unit. ``settings`` maps names of settings to
    their text. ``threads`` is the number of clients, ``program`` the name and version of the
    program, or empty if unknown; ``duration_s`` and ``events`` are 0 if unknown. ``note`` tells the
    user which of several values was chosen.
    """

    number: str
    measure: Measure
    settings: Mapping[str, str] = field(default_factory=dict)
    threads: str = ""
    program: str = ""
    duration_s: float = 0.0
    events: int = 0
    counts: Counts = field(default=Counts())
    note: str = ""


class Unreadable(Exception):
    """An error for output without a value; its message is the predicate of the file's name."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


Reader = Callable[[str], Output]
"""Parse output; raise Unreadable for another program, several runs, or a failed run."""


@dataclass(frozen=True)
class _File:
    path: Path
    block: str
    treatment: str
    output: Output
    digest: bytes


def read(read_output: Reader, paths: Sequence[Path]) -> Imported:
    """Return the value of each file, parsed by ``read_output``.

    Raise UserError for a file without a value, with several values, or of a failed run; for a file
    name without treatment and block; for two files of one trial or with identical contents; and
    for files with different settings.
    """
    first_paths: dict[tuple[str, str], Path] = {}
    files = []
    for path in paths:
        text = read_text(path)  # before the name is checked: raises for a path that is not a file
        block, treatment = _trial(path)
        other = first_paths.setdefault((block, treatment), path)
        if other is not path:
            raise UserError(
                f"{other} and {path} are both for treatment {treatment} in block {block}",
                hint="give each run of a treatment its own number",
            )
        try:
            output = read_output(text)
        except Unreadable as error:
            raise UserError(f"{path} {error}", hint=error.hint) from None
        files.append(_File(path, block, treatment, output, digest_of(text)))
    refuse_equal([(each.path, each.digest) for each in files])
    _refuse_mixed(files)
    values = [
        Value(each.block, each.treatment, _positive(each), each.output.number, each.output.counts)
        for each in files
    ]
    notes = [f"{each.path}: {each.output.note}" for each in files if each.output.note]
    notes += _notes_on_programs(files)
    return Imported(tuple(values), files[0].output.measure, tuple(notes))


def digest_of(text: str) -> bytes:
    """Return a digest of a file's text for ``refuse_equal``."""
    return hashlib.sha256(text.encode()).digest()


def refuse_equal(files: Sequence[tuple[Path, bytes]]) -> None:
    """Raise UserError if two files have identical contents: they are from the same run."""
    first: dict[bytes, Path] = {}
    for path, digest in files:
        other = first.setdefault(digest, path)
        if other is not path:
            raise UserError(
                f"{other} and {path} have identical contents: they are the output of the same run",
                hint="give one file per run",
            )


def _trial(path: Path) -> tuple[str, str]:
    name = _NAME.fullmatch(path.name) or _NAME.fullmatch(path.stem)
    if name is None:
        raise UserError(
            f"{path}: the file name does not give the treatment and the block",
            hint="name the files TREATMENT-BLOCK, such as old-1.log and new-1.log",
        )
    return str(int(name["block"])), name["treatment"]


def _refuse_mixed(files: Sequence[_File]) -> None:
    """Raise UserError if files differ in a setting that both print."""
    first = files[0]
    for other in files[1:]:
        different = _differences(first.output, other.output)
        if not different:
            continue
        listed = "; ".join(different[:_MOST_LISTED])
        more = len(different) - _MOST_LISTED
        listed += f"; and {more} more" if more > 0 else ""
        numbered = [each for each in files if each.block == each.output.threads]
        if len(numbered) == len(files) and first.output.threads != other.output.threads:
            raise UserError(
                f"the number in the name of {other.path} is its number of threads, not a block; "
                f"{first.path} and {other.path} differ in {listed}",
                hint="import only files with the same number of threads, and number the runs of "
                "each treatment (TREATMENT-BLOCK): old-1.log, new-1.log, new-2.log, old-2.log",
            )
        raise UserError(
            f"{first.path} and {other.path} cannot be compared: they differ in {listed}",
            hint="import only runs with the same settings; otherwise the settings may cause the "
            "difference",
        )


def _notes_on_programs(files: Sequence[_File]) -> list[str]:
    """Return a note if files are from different versions of the program, else an empty list."""
    first: dict[str, Path] = {}
    for each in files:
        if each.output.program:
            first.setdefault(each.output.program, each.path)
    if len(first) < 2:
        return []
    listed = ", ".join(f"{program} ({path})" for program, path in first.items())
    what = "the files are from different versions of the program"
    return [f"{what}, which may cause a part of a difference: {listed}"]


def _differences(one: Output, other: Output) -> list[str]:
    """Return the settings in which two runs differ, with their values."""
    names = dict.fromkeys([*one.settings, *other.settings])
    pairs = [(name, one.settings.get(name), other.settings.get(name)) for name in names]
    # A setting that only one of the two prints may come from another version of the program.
    found = [
        f"{name} ({a} and {b})"
        for name, a, b in pairs
        if a is not None and b is not None and _plain(a) != _plain(b)
    ]
    if one.measure != other.measure:
        found.append(f"unit ({one.measure.unit} and {other.measure.unit})")
    durations = (one.duration_s, other.duration_s)
    # With a fixed number of events the duration depends on the server.
    if min(durations) > 0 and not 0 < one.events == other.events:
        ratio = max(durations) / min(durations)
        if ratio > _SAME_DURATION:
            found.append(f"duration ({durations[0]:g} s and {durations[1]:g} s)")
    return found


def _plain(text: str) -> str:
    return " ".join(text.split())


def _positive(file: _File) -> float:
    output = file.output
    try:
        value = float(output.number)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UserError(
            f"{file.path}: the value is {output.number} {output.measure.unit}, which has no ratio",
            hint="find the error that kept the run from doing work, and measure again",
        )
    return value


def found_in(text: str, patterns: Mapping[str, str]) -> dict[str, str]:
    """Return the first group of each pattern that matches in ``text``, by the pattern's name."""
    found = ((name, re.search(line, text, re.MULTILINE)) for name, line in patterns.items())
    return {name: match[1].strip() for name, match in found if match is not None}


def refuse_failed(text: str, failure: re.Pattern[str]) -> None:
    """Raise Unreadable if a line of the output matches ``failure``."""
    if (failed := failure.search(text)) is not None:
        raise of_failed_run(f"that failed: {failed[0].strip()}")


def of_failed_run(why: str) -> Unreadable:
    """Return the error for the output of a failed or incomplete run."""
    return Unreadable(f"is from a run {why}", "correct the cause, and measure again")


def several(what: str, n_runs: int, program: str) -> Unreadable:
    """Return the error for a file with the output of several runs."""
    return Unreadable(
        f"has {what} of {counted(n_runs, 'run')}",
        f"write the output of each run of {program} to its own file",
    )
