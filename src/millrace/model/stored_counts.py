"""The document in which an attempt stores the instructions that it counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from millrace.model.documents import Document, Items, Number
from millrace.model.instruction_counts import CallPath, CountedStart, Program, Repetition

_DEEPEST = 256  # callgrind knows 200 callers
_LONGEST = 10_000_000  # functions of all call paths together; a point query has 200,000
_MOST_REPETITIONS = 1000
_ROOT = -1


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
