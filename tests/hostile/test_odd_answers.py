"""What a trial makes of odd answers: a failed trial, or nothing known, but never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from millrace.runner import measuring, residency, run, server_state
from millrace.runner.counters import counters_of
from millrace.runner.steps import EXPECTED_FAILURES
from millrace.servers.attached import AttachedInstance
from millrace.servers.model import AttachedServer
from tests.hostile.mysql_server import Answer, answers, says, serving
from tests.unit.store.stored_records import result

Question = Callable[[AttachedInstance], object]


def pool(instance: AttachedInstance) -> object:
    return residency.pool_status(instance)


def sizes(instance: AttachedInstance) -> object:
    return residency.table_sizes(instance, "test")


def analyse(instance: AttachedInstance) -> None:
    measuring._analyse(instance, "test", 10)


def counted(instance: AttachedInstance) -> object:
    with counters_of(instance) as counters:
        counters.see({"type": "mark", "mark": "measure_started"})
        counters.see({"type": "mark", "mark": "measure_ended"})
        return list(counters.measurements())


def afterwards(instance: AttachedInstance) -> object:
    return server_state.afterwards(instance, "test")


@pytest.mark.parametrize("question", [pool, sizes, analyse, counted, afterwards])
@pytest.mark.parametrize(
    "answer",
    [
        answers(b"a"),
        answers(b"a", "²".encode()),
        answers(b"a", b"9" * 40),
        answers(b"a", b"b", b"c"),
        answers(b"a", b"1e300", b"1"),
        answers(b"a", b"nan", b"1"),
        answers(b"a", b"1", b"9" * 40),
        answers(b"a", b"b", b"c", b"d", b"e"),
        answers(None, None, None, None),
        says(b"\x00\x00\x00\x02\x00\x00\x00"),
    ],
)
def test_an_odd_answer_ends_a_trial_at_most(question: Question, answer: Answer) -> None:
    with serving(answer) as server:
        attached = AttachedInstance(AttachedServer("theirs", "mysql", server.address))
        with suppress(*EXPECTED_FAILURES):
            question(attached)


@pytest.mark.parametrize(
    "odd", [{"a": "\x01" * (15 << 20)}, {"a": "x" * (17 << 20)}], ids=["escaped", "long"]
)
def test_answers_that_could_not_be_read_back_are_a_failed_trial(odd: dict[str, str]) -> None:
    (instance,) = result().instances
    kept = run._readable(replace(result(), instances=(replace(instance, effective=odd),)))
    assert (kept.outcome, kept.failed_step, kept.instances) == ("failed", "record", ())
    assert "cannot be stored" in (kept.reason or "")
    facts = replace(instance, facts={"age_s": 1e300, "count": 10**40})
    assert run._readable(replace(result(), instances=(facts,))).outcome == "failed"
    assert run._readable(result()) == result()
