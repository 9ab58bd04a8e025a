"""Test the checks after a measurement: who passes, and what a failure says."""

from types import SimpleNamespace
from typing import Any

from millrace.errors import TrialFailed
from millrace.trial.checks import checking_steps
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.steps import StepsOutcome, execute_steps
from tests.support.measuring import live
from tests.support.small_workload import driving

CHECKS = [
    {
        "name": "sums",
        "title": "sums are equal",
        "sql": "SELECT 1 FROM sbtest1 WHERE k > {tables}\n",
    },
    {"name": "counts", "title": "counts are equal", "sql": "SELECT 2 FROM sbtest1 WHERE k < 0"},
]


class Administration:
    """It answers each query with rows, and remembers it."""

    def __init__(self, *rows: tuple[str, ...]) -> None:
        self.rows, self.asked = list(rows), list[str]()

    def first_rows(
        self, _client: object, database: str, sql: str, most: int, _limit_s: float
    ) -> list[tuple[str, ...]]:
        self.asked.append(f"{database}: {sql}")
        return self.rows[:most]


def outcome(administration: Administration) -> StepsOutcome:
    client: Any = SimpleNamespace(family=SimpleNamespace(administration=administration))
    workload = ResolvedWorkload(driving(checks=CHECKS), {"tables": 3})
    return execute_steps(checking_steps(workload, live(client)), lambda _step: None)


def test_conditions_that_hold_are_steps_of_their_names() -> None:
    administration = Administration()
    ended = outcome(administration)
    assert [step.name for step in ended.steps] == ["check_sums", "check_counts"]
    assert ended.cause is None
    assert administration.asked[0] == "test: SELECT 1 FROM sbtest1 WHERE k > 3"


def test_a_violated_condition_fails_the_trial_by_its_name() -> None:
    ended = outcome(Administration(("1", "300.00"), ("2", "\x1b[1m"), ("3", "x" * 500), ("4", "")))
    assert ended.failed == "check_sums"
    assert isinstance(ended.cause, TrialFailed)
    reason = str(ended.cause)
    assert "condition sums is violated after the run (sums are equal)" in reason
    assert "(1, 300.00)" in reason
    assert reason.endswith("and more")
    assert "\x1b" not in reason
    assert len(reason) < 400
