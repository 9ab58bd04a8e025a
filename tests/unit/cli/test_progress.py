"""Test the progress text of a sequential run after each block."""

import time
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from millrace.cli import progress
from millrace.cli.console import err
from millrace.cli.progress import (
    Forecast,
    Listener,
    block_end_text,
    has_line,
    loop_text,
    review_text,
)
from millrace.experiment.model import Plan, PlannedTrial
from millrace.experiment.plan import expand
from millrace.model.events import (
    BlockEnded,
    ClosedComparison,
    InterimRatio,
    IntervalEnded,
    LoopEnded,
    RunAssessed,
    ScheduledTrial,
    StepBegan,
    TrialBegan,
    TrialEnded,
    TrialsScheduled,
    VisibleChanges,
)
from tests.unit.experiment import test_rounds
from tests.unit.experiment.test_plan import experiment


def closed(label: str, verdict: str, state: str = "decided") -> ClosedComparison:
    return ClosedComparison(label=label, state=state, verdict=verdict)


def look(
    blocks: int, *found: ClosedComparison, n_open: int, trials: int = 4, ended: int = 0
) -> RunAssessed:
    return RunAssessed(
        blocks=blocks, closed=found, open=n_open, about_s=720.0, at_most_s=1860.0,
        at_most_trials=trials, ended_trials=ended,
    )  # fmt: skip


RATIOS = (
    InterimRatio(label="b", ratio=0.9, low=0.85, high=0.953),
    InterimRatio(label="c", ratio=1.01),
    *[InterimRatio(label="d", ratio=1.0)] * 4,
)


def about(trial: PlannedTrial) -> dict[str, Any]:
    """Return what the beginning and the end of a trial have in common."""
    return {
        "trial": trial.id, "treatment": trial.treatment.label,
        "treatment_id": trial.treatment.id, "block": 0, "position": trial.position,
    }  # fmt: skip


def scheduled(plan: Plan, estimate_s: float) -> TrialsScheduled:
    return TrialsScheduled(
        trials=tuple(
            ScheduledTrial(
                id=each.id, treatment_id=each.treatment.id, time_weight=plan.share_of_time(each)
            )
            for each in plan.trials
        ),
        waiting=tuple(each.id for each in plan.trials),
        estimate_s=estimate_s,
        rows=None,
    )


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (look(1, n_open=2), "after block 1: 2 comparisons undecided"),
        (
            replace(look(2, n_open=2), ratios=RATIOS[:2]),
            "after block 2: b at 0.900 (0.850 to 0.953), c at 1.010; 2 comparisons undecided",
        ),
        (
            look(5, closed("b", "regression"), n_open=1),
            "after block 5: b: regression; 1 comparison undecided",
        ),
        (
            look(6, closed("b", "failed", "failing"), closed("c", "x", "unequal"), n_open=2),
            (
                "after block 6: b: failed again and again; c: not the same work; "
                "2 comparisons undecided"
            ),
        ),
        (
            look(3, *[closed(name, "regression") for name in "abcd"], closed("e", "equivalent"),
                 n_open=7),
            "after block 3: 4 regressions, 1 equivalent; 7 comparisons undecided",
        ),
    ],
)  # fmt: skip
def test_a_look_in_words(event: RunAssessed, text: str) -> None:
    assert review_text(event) == text


def test_the_end_of_a_block_in_words() -> None:
    assert block_end_text(BlockEnded(2, 4, RATIOS)) == (
        "after block 2 of 4: b at 0.900 (0.850 to 0.953), c at 1.010, d at 1.000, d at 1.000, and "
        "2 others"
    )
    with Listener() as watch:
        watch(BlockEnded(2, 4, RATIOS))


def test_the_first_intervals_say_what_the_last_block_will_show() -> None:
    ratios, differing = RATIOS[1:2], VisibleChanges(8, 0.0081, 0.0124)
    assert block_end_text(BlockEnded(3, 8, ratios, differing)) == (
        "after block 3 of 8: c at 1.010; "
        "8 blocks will show changes of 0.8 % (at worst 1.2 %) or more"
    )
    review = replace(look(3, n_open=1), visible=VisibleChanges(31, 0.012, 0.012))
    assert review_text(review) == (
        "after block 3: 1 comparison undecided; 31 blocks will show changes of 1.2 % or more"
    )


def test_the_time_left_runs_down_from_the_last_look() -> None:
    found = Forecast(at_s=100.0, about_s=720.0, at_most_s=1860.0)
    assert found.left(100.0) == "about 12 min, at most 31 min"
    assert found.left(400.0) == "about 7 min, at most 26 min"
    assert found.left(5000.0) == "about 0 s"


def test_lines_say_how_many_trials_there_are_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert not err.is_terminal
    plan = expand(experiment({"server": ["a", "b"]}, blocks=8), seed=1)
    first = {**about(plan.trials[0]), "treatment": "a"}
    with Listener() as watch:
        watch(look(0, n_open=0, trials=16))
        watch(TrialBegan(**first, purpose="measure"))
        watch(TrialEnded(**first, purpose="aa", outcome="finished", failed_step=None, reason=None))
        watch(look(1, n_open=1, trials=14, ended=1))
        watch(look(2, closed("b", "equivalent"), n_open=0, trials=0, ended=1))
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("1/16 a · block 1, A/A trial · ")
    assert said[0].endswith("about 12 min, at most 31 min left")
    assert said[1].startswith("after block 1: 1 comparison undecided; about 12 min")
    assert said[2].startswith("after block 2: b: equivalent")


def test_the_time_left_is_without_snapshots_that_are_made_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = expand(experiment({"server": ["a", "b"]}, blocks=2), seed=1)
    first = plan.trials[0]
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with Listener() as watch:
        watch(scheduled(plan, 400.0))
        watch(TrialBegan(**about(first), purpose="measure"))
        for name, took_s in (("make", 80), ("save", 5), ("restore", 1), ("measure", 9)):
            watch(StepBegan(name=name, trial=first.id))
            now_s += took_s
        watch(TrialEnded(**about(first), purpose="measure", outcome="finished"))
    assert capsys.readouterr().err.splitlines()[0].endswith("95.0 s · 0:30 left")


def test_all_of_a_round_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    plan = expand(test_rounds.experiment(blocks=2), seed=1)
    one_round = plan.trials[:2]
    failed: dict[str, Any] = {"failed_step": "pair_failed", "reason": "the other one"}
    with Listener() as watch:
        watch(scheduled(plan, 40.0))
        for trial in one_round:
            watch(TrialBegan(**about(trial), purpose="measure"))
        watch(StepBegan(name="restore", trial=one_round[1].id))
        watch(IntervalEnded(trial=one_round[0].id, kind="drive", phase="measure", t_s=3.0, rows=0))
        (task,) = watch._trials.bar.tasks
        one, other = (trial.treatment.label for trial in one_round)
        shown = f"block 1 · {one} · measure 3 s | block 1 · {other} · restore"
        assert task.fields["now"] == shown
        # 4 trials of 20 s each, two at a time.
        assert task.fields["left"] in ("0:40", "0:39")
        for trial in one_round:
            watch(TrialEnded(**about(trial), purpose="measure", outcome="failed", **failed))
        assert task.fields["left"] == "0:20"
    said = capsys.readouterr().err.splitlines()
    assert [line[:3] for line in said] == ["1/4", "2/4"]
    assert "failed at pair_failed: the other one" in said[0]


def test_text_of_others_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    terminal = Console(file=written, force_terminal=True, width=200)
    monkeypatch.setattr(progress, "err", terminal)
    for bar in (progress.TrialBar().bar, progress.DownloadBar().bar):
        task = bar.add_task("a[/b] [bold]c", total=1, left=":x:", now="[/b]")
        terminal.print(bar.get_renderable())
        bar.update(task, completed=1)
    shown = written.getvalue()
    assert "a[/b] [bold]c" in shown
    assert "· :x: left ·" in shown


def test_a_loop_has_a_line_and_of_many_some_have() -> None:
    day = [LoopEnded(loop=n, loops=24, transactions=7200, duration_s=3.6) for n in range(1, 25)]
    assert all(map(has_line, day))
    assert loop_text(day[4]) == "loop 5 of 24: 2,000 transactions/s"
    many = [replace(day[0], loop=number, loops=1000) for number in range(1, 1001)]
    assert [each.loop for each in many if has_line(each)][-3:] == [500, 512, 1000]
    cold = replace(many[2], restarted_cold=True)
    assert has_line(cold)
    assert loop_text(cold).endswith(", restarted cold")
