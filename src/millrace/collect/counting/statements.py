"""Find the instructions of a statement in two dumps of threads.

Each dump covers the whole session of one client: its log-in, the preparation of its statements, the
statements, its end. The second session executes more statements than the first, so the difference
between the two is that of statements. Instructions count below the function that executes a
command, without the calls that both sessions made equally often, such as the preparation. Outside
of that function (log-ins, reading a command) the work depends on when data arrive, and does not
count. The second session must have more commands by the number of its further statements;
otherwise the dumps do not hold what was driven.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.collect.counting.callgrind import ThreadDump
from millrace.model.instruction_counts import CallPath, Repetition

Dump = Mapping[int, ThreadDump]
"""The threads of a server between two moments, by callgrind's number of the thread."""

DEEPER = "[deeper calls]"
"""Stands for the callers of a function that is too deep for callgrind to know them."""


@dataclass(frozen=True)
class ClientSession:
    """A client's session: the statements it executed, and what the server's threads did."""

    statements: int
    dump: Dump


@dataclass(frozen=True)
class StatementCount:
    """The instructions of a statement, also by call path below the executing function."""

    counted: Repetition
    paths: Mapping[CallPath, float]
    files: Mapping[str, str]


def repetitions(
    few: Sequence[ClientSession],
    many: Sequence[ClientSession],
    command_functions: Collection[str],
    most_callers: int,
) -> tuple[list[StatementCount], list[str]]:
    """Return the count by each longer session, and why pairs of sessions have none.

    A longer session is compared with the nearest shorter one that fits: the server's thread may
    have served the load generator's first, short session before.
    """
    found, failures = [], []
    for number, session in enumerate(many):
        nearest = sorted(range(len(few)), key=lambda other: abs(other - number))
        for other in nearest:
            try:
                each = count_statement(few[other], session, command_functions, most_callers)
                found.append(replace(each, counted=each.counted.replace(number=number)))
                break
            except ValueError as error:
                failures.append(str(error))
    return found, failures


def count_statement(
    few: ClientSession, many: ClientSession, command_functions: Collection[str], most_callers: int
) -> StatementCount:
    """Return the count of a statement. Raise ValueError for dumps that do not hold what was driven.

    Paths of ``most_callers`` functions may lack the outermost ones.
    """
    more = many.statements - few.statements
    sides = _sessions(few.dump, many.dump, more, command_functions, most_callers)
    paths: defaultdict[CallPath, float] = defaultdict(float)
    once = {
        path
        for path, calls in sides[1].calls.items()
        if len(path) > 1 and sides[0].calls.get(path) == calls
    }
    for sign, side in zip((-1, 1), sides, strict=True):
        for path, instructions in side.own.items():
            if not any(path[:length] in once for length in range(2, len(path) + 1)):
                paths[path] += sign * instructions / more
    background = sum(_background(each.dump, command_functions) for each in (few, many))
    counted = Repetition(
        instructions=sum(paths.values()), background=background / (few.statements + many.statements)
    )
    kept = {path: instructions for path, instructions in paths.items() if instructions}
    return StatementCount(counted, kept, {**sides[0].files, **sides[1].files})


@dataclass(frozen=True)
class _Session:
    """The commands of a session, what they took by call path, and how often each was entered."""

    commands: int
    own: Mapping[CallPath, int]
    calls: Mapping[CallPath, int]
    files: Mapping[str, str]


def _sessions(
    few: Dump, many: Dump, more: int, functions: Collection[str], most_callers: int
) -> tuple[_Session, _Session]:
    """Return the client's sessions, by their commands: other threads serve millrace itself."""
    found = [
        [_session_of(thread, functions, most_callers) for thread in dump.values()]
        for dump in (few, many)
    ]
    pairs = [(a, b) for a in found[0] for b in found[1] if a.commands and b.commands]
    if not pairs:
        named = " or ".join(sorted(functions))
        raise ValueError(f"no thread executed a command: {named} was never called")
    driven = [(a, b) for a, b in pairs if b.commands - a.commands == more]
    if not driven:
        commands = [max(each.commands for each in side) for side in found]
        raise ValueError(
            f"no thread executed {more:,} commands more for {more:,} statements more: "
            f"{commands[0]:,} before, {commands[1]:,} then"
        )
    return max(driven, key=lambda pair: sum(pair[1].own.values()))


def _session_of(thread: ThreadDump, functions: Collection[str], most_callers: int) -> _Session:
    commands = _commands(thread, functions)
    if not commands:
        return _Session(0, {}, {}, {})
    own = _below(thread.own, functions, most_callers)
    return _Session(commands, own, _below(thread.calls, functions, most_callers), thread.files)


def _below(
    numbers: Mapping[CallPath, int], functions: Collection[str], most_callers: int
) -> dict[CallPath, int]:
    """Return the numbers of paths from one of the functions on."""
    found: defaultdict[CallPath, int] = defaultdict(int)
    for path, number in numbers.items():
        at = next((n for n, name in enumerate(path) if name in functions), None)
        if at is not None:
            found[path[at:]] += number
        elif len(path) >= most_callers:
            found[(DEEPER, path[-1])] += number
    return found


def _commands(thread: ThreadDump, functions: Collection[str]) -> int:
    return sum(
        count
        for path, count in thread.calls.items()
        if path[-1] in functions and not any(name in functions for name in path[:-1])
    )


def _background(dump: Dump, functions: Collection[str]) -> int:
    """Return the instructions of all threads that executed no command."""
    return sum(each.total for each in dump.values() if not _commands(each, functions))
