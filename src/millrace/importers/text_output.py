"""Read what sysbench, pgbench, mysqlslap and HammerDB print: one value a file.

The output does not name the treatment, so the file name does: TREATMENT-BLOCK, as in ``old-1.log``
and ``new-1.log``. A value depends on threads, scale, duration and version as much as on the server,
so files which differ in any setting that they print are refused; for different versions of the
program, which servers of different versions come with, there is a note. What each program prints, a
reader of its own finds (``sysbench``, ``pgbench``, ``mysqlslap``, ``hammerdb``).
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
_SAME_DURATION = 1.2  # the ratio of two durations up to which a stall or a late end explains it
_MOST_LISTED = 3


@dataclass(frozen=True)
class Output:
    """The result of one run, as its program wrote it.

    ``number`` is the value's text and ``measure`` its unit. ``settings`` has the text of each
    setting by its name, ``threads`` the number of clients, ``program`` the name and the version of
    the program if the output has it; ``duration_s`` and ``events`` are 0 if unknown. ``note`` is
    what the user must know about a value that was chosen among several.
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
    """An error for output which has no value; the message follows the file's name."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


Reader = Callable[[str], Output]
"""Raise Unreadable for text of another program, for several runs, and for a run which failed."""


@dataclass(frozen=True)
class _File:
    path: Path
    block: str
    treatment: str
    output: Output
    digest: bytes


def read(read_output: Reader, paths: Sequence[Path]) -> Imported:
    """Return the value of each file, which ``read_output`` finds in its text.

    Raises UserError for a file without a value, with several, or of a run that failed; for names
    without treatment and block; for two files of one trial or with equal contents; and for files
    with different settings.
    """
    first_paths: dict[tuple[str, str], Path] = {}
    files = []
    for path in paths:
        text = read_text(path)  # also refuses what is not a file, whatever its name
        block, treatment = _trial(path)
        other = first_paths.setdefault((block, treatment), path)
        if other is not path:
            raise UserError(
                f"{other} and {path} are both of {treatment} in block {block}",
                hint="give each trial a number of its own",
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
    """Return a digest of a file's text, for ``refuse_equal``."""
    return hashlib.sha256(text.encode()).digest()


def refuse_equal(files: Sequence[tuple[Path, bytes]]) -> None:
    """Raise UserError where two files have equal contents: they are one run, not two."""
    first: dict[bytes, Path] = {}
    for path, digest in files:
        other = first.setdefault(digest, path)
        if other is not path:
            raise UserError(
                f"{other} and {path} have equal contents, so they are one run and not two trials",
                hint="give each run's own file, once",
            )


def _trial(path: Path) -> tuple[str, str]:
    name = _NAME.fullmatch(path.name) or _NAME.fullmatch(path.stem)
    if name is None:
        raise UserError(
            f"the name of {path} does not tell which treatment and which block it is of",
            hint="call the files TREATMENT-BLOCK, such as old-1.log and new-1.log",
        )
    return str(int(name["block"])), name["treatment"]


def _refuse_mixed(files: Sequence[_File]) -> None:
    """Raise UserError where files differ in what they print of their settings."""
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
                hint="import the files of one number of threads, each run of it with a number of "
                "its own: TREATMENT-BLOCK, such as old-1.log, new-1.log, new-2.log and old-2.log",
            )
        raise UserError(
            f"{first.path} and {other.path} cannot be compared: they differ in {listed}",
            hint="import only runs with the same settings; a difference between others says "
            "nothing about the servers",
        )


def _notes_on_programs(files: Sequence[_File]) -> list[str]:
    """Return a note where files are of different versions of the program; else nothing."""
    first: dict[str, Path] = {}
    for each in files:
        if each.output.program:
            first.setdefault(each.output.program, each.path)
    if len(first) < 2:
        return []
    listed = ", ".join(f"{program} ({path})" for program, path in first.items())
    what = "the files are of different versions of the program"
    return [f"{what}, which may be a part of a difference: {listed}"]


def _differences(one: Output, other: Output) -> list[str]:
    """Return the settings in which two runs differ, with their values."""
    names = dict.fromkeys([*one.settings, *other.settings])
    pairs = [(name, one.settings.get(name), other.settings.get(name)) for name in names]
    # What only one of the two prints may be a difference of the program's versions.
    found = [
        f"{name} ({a} and {b})"
        for name, a, b in pairs
        if a is not None and b is not None and _plain(a) != _plain(b)
    ]
    if one.measure != other.measure:
        found.append(f"what they count ({one.measure.unit} and {other.measure.unit})")
    durations = (one.duration_s, other.duration_s)
    # A fixed number of events takes as long as the server needs.
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
            f"{file.path}: {output.number} {output.measure.unit} have no ratio",
            hint="look for the error for which the run did no work, and measure again",
        )
    return value


def found_in(text: str, patterns: Mapping[str, str]) -> dict[str, str]:
    """Return the first group of each pattern that is found in lines, by its name."""
    found = ((name, re.search(line, text, re.MULTILINE)) for name, line in patterns.items())
    return {name: match[1].strip() for name, match in found if match is not None}


def refuse_failed(text: str, failure: re.Pattern[str]) -> None:
    """Raise Unreadable for output with a line in which its program reports a ``failure``."""
    if (failed := failure.search(text)) is not None:
        raise of_failed_run(f"that failed: {failed[0].strip()}")


def of_failed_run(why: str) -> Unreadable:
    """Return the error for output of a run that cannot be counted."""
    return Unreadable(f"is of a run {why}", "correct its cause, and measure again")


def several(what: str, n_runs: int, program: str) -> Unreadable:
    """Return the error for output of several runs in one file."""
    return Unreadable(
        f"has {what} of {counted(n_runs, 'run')}",
        f"keep what one run of {program} prints in a file of its own",
    )
