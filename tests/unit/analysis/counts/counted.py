"""Build starts of servers whose statements were counted."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.model.instruction_counts import (
    CountedStart,
    Program,
    Repetition,
    TreatmentStarts,
)

OLD = Program(
    ("GCC: (GNU) 4.1.2 20080704 (Red Hat 4.1.2-46)", "GCC: (GNU) 4.1.2 20080704"),
    position_independent=False,
)
NEW = Program(("GCC: (GNU) 11.2.1", "clang version 15.0.7", "a linker"), position_independent=True)


def start(*instructions: float, extra: float = 0.0) -> CountedStart:
    """Return a start with these repetitions; ``extra`` ones are in a function of its own."""
    mean = sum(instructions) / len(instructions)
    paths = {("run",): 0.4 * mean, ("run", "read"): 0.6 * mean - extra}
    if extra:
        paths["run", "read", "extra"] = extra
    repetitions = tuple(Repetition(each, 25.0, number) for number, each in enumerate(instructions))
    return CountedStart(480, repetitions, paths, {"read": "mysqld"})


def treatment(
    server: str,
    starts: Sequence[CountedStart],
    *,
    test: str = "point-query",
    program: Program | None = OLD,
    failure: str | None = None,
) -> TreatmentStarts:
    levels = {"server": server, "configuration": "cached-oltp", "test": test}
    return TreatmentStarts(levels, tuple(starts), program, failure)


BASE = treatment("old", [start(1000, 1001, 1002), start(1003, 1001, 1002), start(999, 1002, 1001)])
MORE = treatment(
    "new",
    [
        start(1065, 1064, 1066, extra=64), start(1067, 1065, 1066, extra=65),
        start(1064, 1066, 1065, extra=64),
    ],
    program=NEW,
)  # fmt: skip
