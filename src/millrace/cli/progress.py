"""A run's progress on stderr: a bar on a terminal, else a line a trial; with the time left."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from millrace.cli.console import err
from millrace.experiment.model import Plan


class RunProgress:
    """Feed it the runner's events; it is a context manager.

    The time left is the mean duration of the finished trials of each treatment times the trials
    that are still to come, and the plan's estimate for treatments not yet seen.
    """

    def __init__(self, plan: Plan, open_trials: set[str], estimate_s: float) -> None:
        self._rows = plan.experiment.parameters.get("rows")
        self._total = len(plan.trials)
        self._waiting = {t.id: t.treatment.id for t in plan.trials if t.id in open_trials}
        self._done = self._total - len(self._waiting)
        self._guess_s = estimate_s / max(self._total, 1)
        self._durations: dict[str, list[float]] = defaultdict(list)
        self._started = time.monotonic()
        self._bar = Progress(
            BarColumn(24),
            TextColumn("{task.completed}/{task.total} trials"),
            TextColumn("· {task.fields[left]} left ·"),
            TextColumn("{task.fields[now]}"),
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

    def __call__(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "trial":
            self._started = time.monotonic()
            self._label = f"{_block(event)} · {event['treatment']}"
            self._show("settle")
        elif kind == "step":
            self._show(str(event["name"]))
        elif kind == "interval":
            self._show(f"{event['phase']}{self._progress(event)}")
        elif kind == "waiting":
            err.print(f"the result cannot be written yet: {event['reason']}", markup=False)
        elif kind == "end":
            self._end(event)

    def _progress(self, event: Mapping[str, Any]) -> str:
        """How far a phase has come: of the rows of a named data set, else in rows or time."""
        if event.get("kind") == "drive":
            return f" {event['t_s']:.0f} s"
        if not event["rows"]:
            return ""
        if self._rows is None:
            return f" {event['rows']:,} rows"
        return f" {100 * event['rows'] // self._rows} %"

    def _end(self, event: Mapping[str, Any]) -> None:
        took_s = time.monotonic() - self._started
        if event["outcome"] == "finished":
            self._durations[event["treatment_id"]].append(took_s)
        self._waiting.pop(event["trial"], None)
        self._done = self._total - len(self._waiting)
        self._bar.update(self._task, completed=self._done, left=self._left(0.0))
        outcome = (
            "" if event["outcome"] == "finished" else f": failed at {event['failed_step']}: "
        ) + str(event["reason"] or "")
        if event["outcome"] != "finished" or not err.is_terminal:
            err.print(
                f"{self._done}/{self._total} {event['treatment']} · {_block(event)}"
                f" · {took_s:.1f} s{outcome} · {self._left(0.0)} left",
                markup=False,
            )

    def _show(self, what: str) -> None:
        running_s = time.monotonic() - self._started
        self._bar.update(self._task, now=f"{self._label} · {what}", left=self._left(running_s))

    def _left(self, running_s: float) -> str:
        seen = [each for durations in self._durations.values() for each in durations]
        usual_s = fmean(seen) if seen else self._guess_s
        left_s = sum(
            fmean(self._durations[treatment]) if self._durations.get(treatment) else usual_s
            for treatment in self._waiting.values()
        )
        return duration_text(max(left_s - running_s, 0.0))


def duration_text(seconds: float) -> str:
    """``1:23`` or ``1:02:03``."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def _block(event: Mapping[str, Any]) -> str:
    return f"{'profile' if event['purpose'] == 'profile' else 'block'} {event['block'] + 1}"
