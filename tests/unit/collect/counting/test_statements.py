"""Test how the instructions of a statement are found in the dumps of two sessions."""

from collections.abc import Mapping

import pytest

from millrace.collect.counting.callgrind import ThreadDump
from millrace.collect.counting.statements import DEEPER, ClientSession, count_statement, repetitions
from millrace.model.instruction_counts import CallPath

COMMAND = frozenset(("dispatch_command",))
RUN = ("start_thread", "do_command", "dispatch_command")
MOST_CALLERS = 10


def thread(own: Mapping[CallPath, int], calls: Mapping[CallPath, int]) -> ThreadDump:
    return ThreadDump(own, calls, {"execute": "mysqld"})


def session(number: int, *, prepare: int = 5_000, commands: int | None = None) -> ThreadDump:
    """Return a client's thread: 40 instructions read a statement, 1,000 execute it."""
    entered = number + 3 if commands is None else commands
    return thread(
        {
            ("start_thread", "log_in"): 90_000,
            ("start_thread", "do_command"): 40 * number,
            RUN: 100 * number,
            (*RUN, "prepare"): prepare,
            (*RUN, "execute"): 900 * number,
        },
        {
            ("start_thread", "do_command"): entered,
            RUN: entered,
            (*RUN, "prepare"): 1,
            (*RUN, "execute"): number,
        },
    )


def driven(number: int, *others: ThreadDump, **about: int) -> ClientSession:
    return ClientSession(number, dict(enumerate((*others, session(number, **about)))))


def test_a_statement_is_what_the_longer_session_has_more() -> None:
    found = count_statement(driven(10), driven(110), COMMAND, MOST_CALLERS)
    assert found.counted.instructions == pytest.approx(1_000)
    assert found.paths == pytest.approx(
        {("dispatch_command",): 100, ("dispatch_command", "execute"): 900}
    )
    assert found.files == {"execute": "mysqld"}


def test_what_both_sessions_do_once_does_not_count_however_long_it_took() -> None:
    few, many = driven(10, prepare=5_000), driven(110, prepare=250_000)
    assert count_statement(few, many, COMMAND, MOST_CALLERS).counted.instructions == pytest.approx(
        1_000
    )


def test_threads_that_serve_no_client_are_counted_apart() -> None:
    purge = thread({("start_thread", "purge"): 60_000}, {})
    observer = thread({(*RUN, "show"): 500_000}, {RUN: 4})
    few, many = driven(10, purge, observer), driven(110, purge, observer)
    found = count_statement(few, many, COMMAND, MOST_CALLERS)
    assert found.counted.instructions == pytest.approx(1_000)
    assert found.counted.background == pytest.approx(1_000)


def test_a_session_that_did_something_else_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"no thread executed 100 commands more .*: 15 before, 113 then"
    ):
        count_statement(driven(10, commands=15), driven(110), COMMAND, MOST_CALLERS)


def test_a_session_is_compared_with_one_that_had_the_same_commands() -> None:
    few = [driven(10), driven(10, commands=15), driven(10)]
    many = [driven(110, commands=115), driven(110), driven(110, commands=118)]
    found, failures = repetitions(few, many, COMMAND, MOST_CALLERS)
    assert [each.counted.instructions for each in found] == pytest.approx([1_000, 1_000])
    assert len(failures) == 1 + 1 + 3  # pairs that were tried in vain


def test_dumps_without_a_command_are_refused() -> None:
    idle = ClientSession(10, {1: thread({("start_thread", "purge"): 60_000}, {})})
    for few, many in (
        (idle, driven(110)),
        (driven(10), idle),
        (ClientSession(1, {}), ClientSession(2, {})),
    ):
        with pytest.raises(ValueError, match="dispatch_command was never called"):
            count_statement(few, many, COMMAND, MOST_CALLERS)


def test_functions_too_deep_for_their_callers_to_be_known_still_count() -> None:
    deep = tuple(f"f{n}" for n in range(MOST_CALLERS))

    def with_deep(number: int) -> ClientSession:
        known = session(number)
        return ClientSession(number, {1: thread({**known.own, deep: 70 * number}, known.calls)})

    found = count_statement(with_deep(10), with_deep(110), COMMAND, MOST_CALLERS)
    assert found.counted.instructions == pytest.approx(1_070)
    assert found.paths[DEEPER, "f9"] == pytest.approx(70)
