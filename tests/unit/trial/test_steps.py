"""Test steps: order, times, failures, limits."""

import signal
import time

import pytest

from millrace.errors import Interrupted, TrialFailed
from millrace.store.records import StepRecord
from millrace.trial.steps import Step, execute_steps, time_limit


def test_steps_run_in_order_and_are_announced_before() -> None:
    happened: list[str] = []
    steps = [
        Step(name, lambda _limit, name=name: happened.append(f"did {name}"), 5.0)  # type: ignore[misc]
        for name in ("start", "load", "stop")
    ]
    ended = execute_steps(steps, lambda name: happened.append(f"will {name}"))
    assert happened == ["will start", "did start", "will load", "did load", "will stop", "did stop"]
    assert [step.name for step in ended.steps] == ["start", "load", "stop"]
    assert [step.position for step in ended.steps] == [0, 1, 2]
    assert ended.failed is None
    starts = [step.started_s for step in ended.steps]
    assert starts == sorted(starts)


def test_the_first_failure_ends_the_trial() -> None:
    def fail(_limit_s: float) -> None:
        raise TrialFailed("no space left", log_tail="disk full")

    def never(_limit_s: float) -> None:
        pytest.fail("a step ran after one failed")

    ended = execute_steps([Step("load", fail, 5.0), Step("stop", never, 5.0)], lambda _name: None)
    assert ended.failed == "load"
    assert isinstance(ended.cause, TrialFailed)
    assert [(step.name, step.outcome) for step in ended.steps] == [("load", "failed")]


def test_a_failure_names_the_finer_step_it_happened_in() -> None:
    def fail(_limit_s: float) -> None:
        raise TrialFailed("lost rows", step="verify")

    assert execute_steps([Step("measure", fail, 5.0)], lambda _name: None).failed == "verify"


def test_finer_steps_take_the_place_of_their_step() -> None:
    def measure(_limit_s: float) -> tuple[StepRecord, ...]:
        return (
            StepRecord(0, "load", 0.0, 2.0, "finished"),
            StepRecord(1, "finish", 2.0, 0.5, "finished"),
        )

    steps = [Step("start", lambda _limit: None, 1.0), Step("measure", measure, 1.0)]
    ended = execute_steps(steps, lambda _name: None)
    assert [(step.position, step.name) for step in ended.steps] == [
        (0, "start"), (1, "load"), (2, "finish"),
    ]  # fmt: skip
    assert ended.steps[2].started_s - ended.steps[1].started_s == pytest.approx(2.0)


@pytest.mark.parametrize("cause", [KeyError("defect"), Interrupted("stopped by SIGTERM")])
def test_defects_and_interruptions_are_raised(cause: Exception) -> None:
    def raise_it(_limit_s: float) -> None:
        raise cause

    with pytest.raises(type(cause)):
        execute_steps([Step("load", raise_it, 5.0)], lambda _name: None)


def test_a_step_that_hangs_is_ended_by_its_limit() -> None:
    def hang(_limit_s: float) -> None:
        time.sleep(600)

    ended = execute_steps(
        [Step("load", hang, -0.9)], lambda _name: None
    )  # a second of grace is added
    assert ended.failed == "load"
    assert "longer than its limit" in str(ended.cause)


def test_the_alarm_is_put_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit("load", 60.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
