"""Show the progress of a use case on stderr: bars on a terminal, else one line per trial."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich import progress

from millrace.analysis.compare.treatments import shown
from millrace.cli.console import err
from millrace.model import events
from millrace.model.phases import DRIVE
from millrace.model.trials import kind_of_block, snapshot_making_s
from millrace.quantities import counted, duration_in_words
from millrace.report.common.formatting import changes_text, interval_text, ratio_text
from millrace.report.run.sentences import COUNTED
from millrace.store.records import TrialRecord

_PRINTED_LOOPS = 50  # a trial with more loops has a line for some of them only
_NAMED = 4  # comparisons in a line; more are counted


def plain_line(event: events.Emitted) -> str | None:
    """Return the line that every command prints for an event; None for an event without one."""
    match event:
        case events.Notice():
            return event.text
        case events.ResultWaits():
            return f"the result cannot be written yet: {event.reason}"
    return None


class Listener:
    """Show events on stderr, one bar at a time.

    ``line_of`` returns the line for an event for which ``plain_line`` returns None.
    """

    def __init__(
        self, line_of: Callable[[events.Emitted], str | None] = lambda _event: None
    ) -> None:
        self._line_of = line_of
        self._downloads = DownloadBar()
        self._trials = TrialBar()
        self._drawn: progress.Progress | None = None

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._draw(None)

    def __call__(self, event: events.Emitted) -> None:
        """Take an event; see ``model.events.OnEvent``."""
        if isinstance(event, events.DownloadMoved):
            self._draw(self._downloads.bar)
            self._downloads.show(event)
        elif isinstance(event, events.RunAssessed | events.TrialsScheduled | events.TrialBegan):
            self._draw(self._trials.bar)
        self._trials.take(event)
        line = plain_line(event) or self._line_of(event)
        if line is not None:
            err.print(line)

    def _draw(self, bar: progress.Progress | None) -> None:
        if self._drawn is not bar:
            if self._drawn is not None:
                self._drawn.stop()
            if bar is not None:
                bar.start()
            self._drawn = bar


def loop_text(event: events.LoopEnded) -> str:
    """Return the line with the throughput of an ended loop."""
    rate = event.transactions / event.duration_s if event.duration_s else 0.0
    cold = ", restarted cold" if event.restarted_cold else ""
    return f"loop {event.loop} of {event.loops}: {rate:,.0f} transactions/s{cold}"


def has_line(event: events.LoopEnded) -> bool:
    """Return whether a loop has a line: of many loops, those in reports and the cold ones."""
    few = event.loops <= _PRINTED_LOOPS
    return few or event.restarted_cold or event.loop in shown(event.loops)


class DownloadBar:
    """A bar for each download."""

    def __init__(self) -> None:
        self.bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(24),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        )
        self._tasks: dict[str, progress.TaskID] = {}

    def show(self, moved: events.DownloadMoved) -> None:
        """Show the downloaded bytes."""
        if moved.what not in self._tasks:
            self._tasks[moved.what] = self.bar.add_task(moved.what, total=moved.total_bytes)
        task = self._tasks[moved.what]
        self.bar.update(task, completed=moved.done_bytes, total=moved.total_bytes)


class TrialBar:
    """One bar for the trials of a run, with the time left.

    The time left is the sum over the open trials of the mean duration of their treatment's ended
    trials. Without any, it is the mean of all ended trials, or else the estimate. For a sequential
    run, the last review forecasts the time left and the number of trials.
    """

    def __init__(self) -> None:
        self._rows: int | None = None
        self._total = self._ended = 0
        self._waiting: dict[str, str] = {}  # treatments by trial
        self._weights: dict[str, float] = {}
        # Label and activity of each trial that runs now: one, or those of a round.
        self._now: dict[str, tuple[str, str]] = {}
        self._forecast: Forecast | None = None
        self._guess_s = 0.0
        self._durations: dict[str, list[float]] = defaultdict(list)
        self._started = time.monotonic()
        # The steps of the trials that run now, and the times at which they began.
        self._steps: defaultdict[str | None, list[tuple[str, float]]] = defaultdict(list)
        self.bar = progress.Progress(
            progress.BarColumn(24),
            progress.TextColumn("{task.completed}/{task.total} trials", markup=False),
            progress.TextColumn("· {task.fields[left]} left ·", markup=False),
            progress.TextColumn("{task.fields[now]}", markup=False),
            console=err,
            transient=True,
            refresh_per_second=1,  # drawing takes CPU from the server
            disable=not err.is_terminal,
        )
        self._task = self.bar.add_task("run", total=0, left="", now="starting")

    def take(self, event: events.Emitted) -> None:
        """Take an event of the run."""
        match event:
            case events.TrialsScheduled():
                self._schedule(event)
            case events.RunAssessed():
                self._review(event)
            case events.TrialBegan():
                self._begin(event)
            case events.StepBegan():
                self._steps[event.trial].append((event.name, time.monotonic()))
                self._show(event.trial, event.name)
            case events.BlockEnded():
                err.print(block_end_text(event))
            case events.IntervalEnded():
                self._show(event.trial, f"{event.phase}{self._progress(event)}")
            case events.LoopEnded():
                if has_line(event):
                    err.print(loop_text(event))
            case events.TrialEnded():
                self._end(event)

    def _schedule(self, event: events.TrialsScheduled) -> None:
        self._rows = event.rows
        waiting = set(event.waiting)
        self._waiting = {t.id: t.treatment_id for t in event.trials if t.id in waiting}
        self._weights = {trial.id: trial.time_weight for trial in event.trials}
        self._guess_s = event.estimate_s / max(sum(self._weights.values()), 1)
        if self._forecast is None:
            self._total = len(event.trials)
            self._ended = self._total - len(self._waiting)
        self._update()

    def _review(self, event: events.RunAssessed) -> None:
        """Keep the forecast of a review, and print its results."""
        self._forecast = Forecast(time.monotonic(), event.about_s, event.at_most_s)
        self._ended = event.ended_trials
        self._total = self._ended + event.at_most_trials
        self._update()
        if event.blocks:
            left = f"; {self._left(0.0)} left" if event.at_most_trials else ""
            err.print(f"{review_text(event)}{left}")

    def _begin(self, event: events.TrialBegan) -> None:
        if not self._now:
            self._steps.clear()
        self._started = time.monotonic()
        self._now[event.trial] = f"{block_text(event)} · {event.treatment}", "settle"
        self._show()

    def _progress(self, event: events.IntervalEnded) -> str:
        """Return the progress of a phase: seconds of load, a percentage of the rows, or rows."""
        if event.kind == DRIVE:
            return f" {event.t_s:.0f} s"
        if not event.rows:
            return ""
        if self._rows is None:
            return f" {event.rows:,} rows"
        return f" {100 * event.rows // self._rows} %"

    def _end(self, event: events.TrialEnded) -> None:
        took_s = time.monotonic() - self._started
        finished = event.outcome == "finished"
        if finished:
            making_s = sum(map(snapshot_making_s, self._steps.values()))
            self._durations[event.treatment_id].append(took_s - making_s)
        self._waiting.pop(event.trial, None)
        self._now.pop(event.trial, None)
        self._ended += 1
        self._update()
        if finished and err.is_terminal:
            return
        failure = f": failed at {event.failed_step}: {event.reason or ''}"
        err.print(
            f"{self._ended}/{self._total} {event.treatment} · {block_text(event)}"
            f" · {took_s:.1f} s{'' if finished else failure} · {self._left(0.0)} left"
        )

    def _show(self, trial: str | None = None, activity: str = "") -> None:
        """Show the trials that run now; ``activity`` is the new activity of ``trial``."""
        if trial is not None:
            self._now[trial] = self._now[trial][0], activity
        running_s = time.monotonic() - self._started
        now = " | ".join(f"{label} · {doing}" for label, doing in self._now.values())
        self.bar.update(self._task, now=now, left=self._left(running_s))

    def _update(self) -> None:
        self.bar.update(self._task, completed=self._ended, total=self._total, left=self._left(0.0))

    def _left(self, running_s: float) -> str:
        if self._forecast is not None:
            return self._forecast.left(time.monotonic())
        ended = [each for durations in self._durations.values() for each in durations]
        usual_s = fmean(ended) if ended else self._guess_s
        expected_s = {
            trial: self._weights[trial]
            * (fmean(self._durations[treatment]) if self._durations.get(treatment) else usual_s)
            for trial, treatment in self._waiting.items()
        }
        # A running trial may exceed its expected time: it may create a snapshot first.
        done_s = min(running_s, sum(expected_s.get(trial, 0.0) for trial in self._now))
        return duration_text(sum(expected_s.values()) - done_s)


@dataclass(frozen=True)
class Forecast:
    """The time left of a sequential run in seconds, at an instant of the monotonic clock."""

    at_s: float
    about_s: float
    at_most_s: float

    def left(self, now_s: float) -> str:
        """Return the time left: ``about 12 min, at most 31 min``."""
        about, at_most = (
            duration_in_words(max(each - (now_s - self.at_s), 0.0))
            for each in (self.about_s, self.at_most_s)
        )
        return f"about {about}" if about == at_most else f"about {about}, at most {at_most}"


def duration_text(seconds: float) -> str:
    """Return ``1:23`` or ``1:02:03``."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def review_text(event: events.RunAssessed) -> str:
    """Return ``after block 5: mysql-5.7.22: regression; 2 comparisons undecided``."""
    closed = [f"{each.label}: {_closed_text(each)}" for each in event.closed]
    if len(closed) > _NAMED:
        counts = Counter(_closed_text(each) for each in event.closed)
        texts = [counted(count, *COUNTED.get(each, (each, each))) for each, count in counts.items()]
        closed = [", ".join(texts)]
    ratios = [_ratios_text(event.ratios[:_NAMED])] if event.ratios else []
    left = counted(event.open, "comparison") if event.open else "no comparisons"
    ahead = _visible_text(event.visible)
    return f"after block {event.blocks}: {'; '.join([*closed, *ratios, left])} undecided{ahead}"


def block_end_text(event: events.BlockEnded) -> str:
    """Return ``after block 2 of 4: mysql-5.7.22 at 0.903 (0.850 to 0.959)``."""
    more = len(event.ratios) - _NAMED
    others = f", and {counted(more, 'other')}" if more > 0 else ""
    ratios = _ratios_text(event.ratios[:_NAMED])
    ahead = _visible_text(event.visible)
    return f"after block {event.blocks} of {event.total}: {ratios}{others}{ahead}"


def _visible_text(visible: events.VisibleChanges | None) -> str:
    """Return ``; 8 blocks will show changes of 0.8 % or more``."""
    if visible is None:
        return ""
    return f"; {visible.blocks} blocks will show {changes_text(visible.smallest, visible.largest)}"


def _ratios_text(ratios: Sequence[events.InterimRatio]) -> str:
    """Return the ratios so far (candidate / base), with their intervals if known."""
    texts = []
    for each in ratios:
        interval = f" ({interval_text(each.low, each.high)})" if each.low is not None else ""
        texts.append(f"{each.label} at {ratio_text(each.ratio)}{interval}")
    return ", ".join(texts)


def _closed_text(closed: events.ClosedComparison) -> str:
    reasons = {
        "failing": "failed again and again",
        "unequal": "not the same work",
        "unsteady": "not steady",
    }
    return reasons.get(closed.state) or str(closed.verdict)


def block_text(trial: events.TrialBegan | events.TrialEnded | TrialRecord) -> str:
    """Return ``block 3``, ``profile 1``, ``count 1`` or ``block 3, A/A trial``."""
    kind = kind_of_block(trial.purpose)
    block = f"{'block' if kind == 'measure' else kind} {trial.block + 1}"
    return f"{block}, A/A trial" if trial.purpose == "aa" else block
