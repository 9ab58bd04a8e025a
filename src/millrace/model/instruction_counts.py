"""Instructions of statements, as trials count and store them and the analysis reads them.

A call path is the names of functions, the outermost first; its last one executes instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, model_validator

from millrace.levels import Level
from millrace.model.documents import Count, Document, Items, Number, Whole

CallPath = tuple[str, ...]

MOST_FAILED = 1
"""The most starts of a treatment that may fail before it is started no more."""

MARGIN = 0.002
"""The smallest difference that matters unless the user says otherwise, a fraction.

Starts of a server spread by some hundredths of a percent.
"""

UNKNOWN = "[unknown]"
"""Stands for a function without a name."""

_DEEPEST = 256  # callgrind knows 200 callers
_LONGEST = 10_000_000  # functions of all call paths together; a point query has 200,000
_MOST_REPETITIONS = 1000
_ROOT = -1


class Repetition(Document):
    """A repetition of statements of one kind; all figures are per statement.

    Every start of a server executes the same statements in the repetition of a ``number``.
    ``instructions`` are those of the client's connection, from the arrival of a command to its
    answer, ``background`` those of all threads that serve no client.
    """

    instructions: Number
    background: Count
    number: Whole = 0


@dataclass(frozen=True)
class CountedStart:
    """One start of a server, and how it executed statements of one kind again and again.

    ``transactions`` are those of a repetition's longer session. ``paths`` are instructions per
    statement, means over the repetitions, of calls below the function that executes a command.
    ``files`` are the program or library of a function, where known.
    """

    transactions: int
    repetitions: tuple[Repetition, ...]
    paths: Mapping[CallPath, float] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)


class Program(Document):
    """The build of a server's program, as far as counts depend on it.

    ``compilers`` are the texts that compilers left in it. A ``position_independent`` one (PIE)
    takes other instructions to reach its data.
    """

    compilers: Items[str]
    position_independent: bool | None = None


@dataclass(frozen=True)
class TreatmentStarts:
    """The starts of a treatment, whose ``levels`` are by factor, without the number of clients.

    ``failed`` further ones failed, the first of them for the reason ``failure``.
    """

    levels: Mapping[str, Level]
    starts: tuple[CountedStart, ...]
    program: Program | None
    failure: str | None = None
    failed: int = 0


class StoredCounts(Document):
    """A counted start, as an attempt stores it; ``valgrind`` is the version that counted.

    The call paths are a tree of calls, callers first: a call's ``callers`` is the place of its
    caller, -1 for none, ``functions`` the place of its name in ``names``, ``own`` the instructions
    of a statement in the function itself.
    """

    valgrind: str = ""
    transactions: Annotated[int, Field(ge=1)]
    repetitions: Annotated[Items[Repetition], Field(min_length=1, max_length=_MOST_REPETITIONS)]
    program: Program | None = None
    names: Items[str]
    callers: Items[int]
    functions: Items[int]
    own: Items[Number]
    files: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _is_a_tree(self) -> StoredCounts:
        if not len(self.callers) == len(self.functions) == len(self.own):
            raise ValueError("callers, functions and own differ in length")
        depths: list[int] = []
        for at, (caller, function) in enumerate(zip(self.callers, self.functions, strict=True)):
            if not _ROOT <= caller < at or not 0 <= function < len(self.names):
                raise ValueError(f"call {at} is of an unknown caller or function")
            depths.append(1 if caller == _ROOT else depths[caller] + 1)
        if max(depths, default=0) > _DEEPEST or sum(depths) > _LONGEST:
            raise ValueError("the calls are deeper, or more, than any server's")
        return self

    def start(self) -> CountedStart:
        """Return the start that was counted."""
        paths: list[CallPath] = []
        for caller, function in zip(self.callers, self.functions, strict=True):
            above = () if caller == _ROOT else paths[caller]
            paths.append((*above, self.names[function]))
        return CountedStart(
            transactions=self.transactions,
            repetitions=self.repetitions,
            paths={path: own for path, own in zip(paths, self.own, strict=True) if own},
            files=self.files,
        )


def stored_counts(start: CountedStart, program: Program | None, valgrind: str) -> dict[str, Any]:
    """Return the plain data by which an attempt stores a counted start; see StoredCounts."""
    names: dict[str, int] = {}
    calls: dict[tuple[int, str], int] = {}  # by caller and function
    callers: list[int] = []
    functions: list[int] = []
    own: list[float] = []
    for path, instructions in start.paths.items():
        call = _ROOT
        for function in path:
            caller, call = call, calls.setdefault((call, function), len(callers))
            if call == len(callers):
                callers.append(caller)
                functions.append(names.setdefault(function, len(names)))
                own.append(0.0)
        own[call] = round(instructions, 3)
    return {
        "valgrind": valgrind,
        "transactions": start.transactions,
        "repetitions": [vars(each) for each in start.repetitions],
        "program": None if program is None else vars(program),
        "names": list(names),
        "callers": callers,
        "functions": functions,
        "own": own,
        "files": {name: file for name, file in start.files.items() if name in names},
    }
