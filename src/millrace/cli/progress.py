"""A run's progress on stderr: a bar on a terminal, else a line a trial; with the time left."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import fmean

from rich.progress import BarColumn, Progress, TextColumn

from millrace.cli.console import err
from millrace.durations import in_words
from millrace.experiment.model import Plan
from millrace.model.events import (
    ClosedComparison,
    Event,
    IntervalEnded,
    ResultWaits,
    RunAssessed,
    StepBegan,
    TrialBegan,
    TrialEnded,
    TrialEvent,
)
from millrace.model.phases import DRIVE

_NAMED = 4  # comparisons in a line; more are counted


class RunProgress:
    """Feed it the runner's events; it is a context manager.

    The time left is the mean duration of the finished trials of each treatment times the trials
    that are still to come, and the plan's estimate for treatments not yet seen. Of a sequential run
    it is what the last look foretold, and so is the number of trials.
    """

    def __init__(self, plan: Plan, open_trials: set[str], estimate_s: float) -> None:
        self._rows = plan.experiment.parameters.get("rows")
        self._total = len(plan.trials)
        self._waiting = {t.id: t.treatment.id for t in plan.trials if t.id in open_trials}
        self._hosts = {t.id: t.hosts for t in plan.trials}
        # What is measured now, by its trial: one, or the two of a pair.
        self._now: dict[str, tuple[str, str]] = {}
        self._done = self._total - len(self._waiting)
        self._look: Look | None = None
        self._guess_s = estimate_s / max(sum(self._hosts.values()), 1)
        self._durations: dict[str, list[float]] = defaultdict(list)
        self._started = time.monotonic()
        self._bar = Progress(
            BarColumn(24),
            TextColumn("{task.completed}/{task.total} trials", markup=False),
            TextColumn("· {task.fields[left]} left ·", markup=False),
            TextColumn("{task.fields[now]}", markup=False),
            console=err,
            transient=True,
            refresh_per_second=1,  # drawing takes CPU beside the server
            disable=not err.is_terminal,
        )
        self._task = self._bar.add_task(
            "run", total=self._total, completed=self._done, left=self._left(0.0), now="starting"
        )

    def __enter__(self) -> RunProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        match event:
            case TrialBegan():
                self._started = time.monotonic()
                self._now[event.trial] = f"{_block(event)} · {event.treatment}", "settle"
                self._show()
            case StepBegan():
                self._show(event, event.name)
            case IntervalEnded():
                self._show(event, f"{event.phase}{self._progress(event)}")
            case RunAssessed():
                self._see(event)
            case ResultWaits():
                err.print(f"the result cannot be written yet: {event.reason}", markup=False)
            case TrialEnded():
                self._end(event)

    def _progress(self, event: IntervalEnded) -> str:
        """How far a phase has come: of the rows of a named data set, else in rows or time."""
        if event.kind == DRIVE:
            return f" {event.t_s:.0f} s"
        if not event.rows:
            return ""
        if self._rows is None:
            return f" {event.rows:,} rows"
        return f" {100 * event.rows // self._rows} %"

    def _end(self, event: TrialEnded) -> None:
        took_s = time.monotonic() - self._started
        if event.outcome == "finished":
            self._durations[event.treatment_id].append(took_s)
        self._waiting.pop(event.trial, None)
        self._now.pop(event.trial, None)
        self._done += 1
        self._bar.update(self._task, completed=self._done, left=self._left(0.0))
        outcome = ("" if event.outcome == "finished" else f": failed at {event.failed_step}: ") + (
            event.reason or ""
        )
        if event.outcome != "finished" or not err.is_terminal:
            err.print(
                f"{self._done}/{self._total} {event.treatment} · {_block(event)}"
                f" · {took_s:.1f} s{outcome} · {self._left(0.0)} left",
                markup=False,
            )

    def _show(self, event: TrialEvent | None = None, what: str = "") -> None:
        """Show what is going on; ``event`` is news of a trial, which is ``what`` it does now."""
        if event is not None:
            trial = event.trial or next(iter(self._now))
            self._now[trial] = self._now[trial][0], what
        running_s = time.monotonic() - self._started
        now = " | ".join(f"{label} · {doing}" for label, doing in self._now.values())
        self._bar.update(self._task, now=now, left=self._left(running_s))

    def _see(self, event: RunAssessed) -> None:
        """Tell what a look at a sequential run saw, and take over what it foretold."""
        self._look = Look(time.monotonic(), event.about_s, event.at_most_s)
        self._total = self._done + event.at_most_trials
        self._bar.update(self._task, total=self._total, left=self._left(0.0))
        if event.blocks:
            left = f"; {self._left(0.0)} left" if event.at_most_trials else ""
            err.print(f"{look_text(event)}{left}", markup=False)

    def _left(self, running_s: float) -> str:
        if self._look is not None:
            return self._look.left(time.monotonic())
        seen = [each for durations in self._durations.values() for each in durations]
        usual_s = fmean(seen) if seen else self._guess_s
        left_s = sum(
            self._hosts[trial]
            * (fmean(self._durations[treatment]) if self._durations.get(treatment) else usual_s)
            for trial, treatment in self._waiting.items()
        )
        return duration_text(max(left_s - running_s, 0.0))


@dataclass(frozen=True)
class Look:
    """What a look at a sequential run foretold at an instant of the monotonic clock, in seconds."""

    at_s: float
    about_s: float
    at_most_s: float

    def left(self, now_s: float) -> str:
        """``about 12 min, at most 31 min``."""
        about, at_most = (
            in_words(max(each - (now_s - self.at_s), 0.0))
            for each in (self.about_s, self.at_most_s)
        )
        return f"about {about}" if about == at_most else f"about {about}, at most {at_most}"


def look_text(event: RunAssessed) -> str:
    """``after block 5: mysql-5.7.22: regression; 2 comparisons undecided``."""
    closed = [f"{each.label}: {_closed_text(each)}" for each in event.closed]
    if len(closed) > _NAMED:
        counts = Counter(_closed_text(each) for each in event.closed)
        closed = [", ".join(f"{count} {text}" for text, count in counts.items())]
    n_open = event.open
    left = f"{n_open or 'no'} comparison{'' if n_open == 1 else 's'} undecided"
    return f"after block {event.blocks}: {'; '.join([*closed, left])}"


def _closed_text(closed: ClosedComparison) -> str:
    """The verdict, or why there will be none."""
    reasons = {
        "failing": "fails again and again",
        "unequal": "not the same work",
        "unsteady": "not steady",
    }
    return str(reasons.get(closed.state) or closed.verdict)


def duration_text(seconds: float) -> str:
    """``1:23`` or ``1:02:03``."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def _block(event: TrialBegan | TrialEnded) -> str:
    block = f"{'profile' if event.purpose == 'profile' else 'block'} {event.block + 1}"
    return f"{block}, control" if event.purpose == "control" else block
