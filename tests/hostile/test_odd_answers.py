"""Test that a trial turns odd answers into a failure or an unknown value, never a traceback."""

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace

import pytest

from millrace.campaign import attempts
from millrace.databases.mysql.client import connect
from millrace.errors import DatabaseError, TrialFailed
from millrace.model.instance_facts import InstanceFacts
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance, parse_dsn
from millrace.store import observations
from millrace.trial import client_preparation, edge_readings, measurements
from millrace.trial.steps import EXPECTED_FAILURES
from millrace.trial.trial_server import analyse_step
from tests.support import hostile_mysql as mysql_server
from tests.support.hostile_mysql import Answer, answers, rows, says, serving
from tests.support.measuring import BEGIN, END, RESULT, live, measurement
from tests.support.stored_records import result

# Python refuses to make a number of this many digits.
DIGITS = b"Modified db pages  " + b"9" * 5_000 + b"\n"

Question = Callable[[AttachedInstance], object]


def pool(instance: AttachedInstance) -> object:
    return instance.family.storage.pool_status(instance)


def sizes(instance: AttachedInstance) -> object:
    return instance.family.administration.table_sizes(instance, "test")


def analyse(instance: AttachedInstance) -> None:
    analyse_step(instance, "test").action(10)


def counted(instance: AttachedInstance) -> object:
    with ExitStack() as opened:
        measuring = measurement(live(instance))
        (hook,) = edge_readings.counter_hooks(measuring, opened)
        for event in (BEGIN, END):
            hook.on_event(event)
        hook.contribute(RESULT)
        hook.verify(RESULT)
        return measuring.outputs.measurements


def settled(instance: AttachedInstance) -> object:
    return client_preparation.quiesce(instance, limit_s=0)


def afterwards(instance: AttachedInstance) -> object:
    return instance.family.storage.state_afterwards(instance, "test")


@pytest.mark.parametrize("question", [pool, sizes, analyse, counted, settled, afterwards])
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
        says(*rows(["Type", "Name", "Status"], [b"", b"", DIGITS])),
    ],
)
def test_an_odd_answer_ends_a_trial_at_most(question: Question, answer: Answer) -> None:
    with serving(answer) as server, suppress(*EXPECTED_FAILURES):
        question(server.attached)


@pytest.mark.parametrize(
    "odd", [{"a": "\x01" * (15 << 20)}, {"a": "x" * (17 << 20)}], ids=["escaped", "long"]
)
def test_answers_that_could_not_be_read_back_are_a_failed_trial(odd: dict[str, str]) -> None:
    (instance,) = result().instances
    kept = attempts._readable(replace(result(), instances=(replace(instance, effective=odd),)))
    assert (kept.outcome, kept.failed_step, kept.instances) == ("failed", "record", ())
    assert "cannot be stored" in (kept.reason or "")
    odd_state = {"state": {"begin": {"age_s": 1e300, "count": 10**40}}}
    facts = replace(instance, facts=InstanceFacts.model_validate(odd_state))
    assert attempts._readable(replace(result(), instances=(facts,))).outcome == "failed"
    assert attempts._readable(result()) == result()


@pytest.mark.parametrize("cells", [("7", "9" * 5_000), ("7", "1e3"), ("7", "²"), ("7",), ()])
def test_a_description_of_a_table_that_is_no_number_fails_the_trial(cells: tuple[str, ...]) -> None:
    with pytest.raises(TrialFailed, match="cannot understand"):
        measurements._cell([cells], 1)


@pytest.mark.parametrize(
    "odd",
    [
        {"other": 10**400},
        {"other": float("inf")},
        {"other": "x" * (9 << 20)},
        {"digests": {"of another": "kind"}},
    ],
    ids=["count", "infinity", "long", "another kind"],
)
def test_observations_that_could_not_be_read_back_are_left_out(odd: dict[str, object]) -> None:
    fitting = {"window_s": 2.5, "status": {"deltas": {"Com_select": 7}}}
    assert observations.readable(fitting) == fitting
    summed = {"class": "disk", "statement": None, "count": 1, "seconds": 0.1, "during_sync": 0}
    stated = {**fitting, "states": {"statements": {"threads": 1, "states": [summed]}}}
    assert observations.readable(stated) == stated
    kept = attempts._readable(replace(result(), observations={"server": {**fitting, **odd}}))
    assert kept.outcome == "finished"
    observed = kept.observations["server"]
    (lack,) = observed["missing"]
    assert "cannot be stored" in lack["what"]
    assert observations.readable(observed) == observed


@pytest.mark.parametrize("as_text", [False, True])
def test_sessions_open_on_a_server_without_autocommit(
    as_text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_server, "_OK", b"\x00\x00\x00\x00\x00\x00\x00")
    with serving(says(*rows(["a"], [b"1"]))) as server:
        address = parse_dsn(AttachedServer("odd", "mysql", server.address))
        with closing(connect(address, as_text=as_text)) as session:
            assert session.query("SELECT 1") == [("1",)]
    assert "SET AUTOCOMMIT = 1" in server.asked


def test_session_outlives_the_idle_time_and_reports_its_end() -> None:
    with serving(says(*rows(["a"], [b"1"]))) as server:
        session = connect(parse_dsn(AttachedServer("odd", "mysql", server.address)))
        session.close()
        with pytest.raises(DatabaseError, match="the session had ended before") as raised:
            session.query("SELECT 1")
    assert raised.value.kind == "lost"
    assert any("wait_timeout = 604800" in each for each in server.asked)
