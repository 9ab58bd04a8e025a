"""Carries out the two trials of a pair at the same time, each in a process of its own, on its half
of the CPUs.

They begin what is measured together (see ``meeting``), and count together or not at all: where one
fails, whatever the step and the reason, the other is ended and left out, so that it is known that
what counts was measured beside the other, for the whole time. A side is ended by closing its input,
which is also what happens when this process is killed.

A side tells, in pairs of a word and what belongs to it:

    event        an event of the trial, as ``trial.execute`` announces it
    arrived      where it waits for the other
    result       the trial's result; it has closed everything
    interrupted  that somebody stopped it, and who
    defect       a traceback: millrace itself is wrong
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import wait

from millrace.errors import Interrupted
from millrace.model.events import StepBegan, TrialEvent
from millrace.servers.instances import processes
from millrace.servers.instances.signals import signals_held
from millrace.store.records import BESIDE, AttemptResult
from millrace.trial.load_run import Emit as Announce
from millrace.trial.spec import TrialSpec

# A server has 15 s to end politely; removing what it made takes some more.
_END_LIMIT_S = 90.0


@dataclass(frozen=True)
class PairTrial:
    """One trial of a pair: what it is given, how it is called, and who is told its events."""

    given: TrialSpec
    label: str
    announce: Announce


def execute_pair(pair: Sequence[PairTrial]) -> tuple[AttemptResult, ...]:
    """Carry both trials out and return their results, in their order: both finished, or both
    failed.

    Raises Interrupted, after both have closed everything, when the user stops the run.
    """
    sides: list[_Side] = []
    try:
        sides.extend(map(_Side, pair))
        for side in sides:
            side.begin()
        _listen(sides)
    finally:
        with signals_held():
            _end(sides)
    return _together(sides)


class _Side:
    """The process of one trial. ``result`` is None while it goes on, ``waits_at`` where it waits
    for the other side."""

    def __init__(self, asked: PairTrial) -> None:
        self.label = asked.label
        self.result: AttemptResult | None = None
        self.waits_at: str | None = None
        self._asked = asked
        self._step = "prepare"
        theirs_in, self.inbox = Pipe(duplex=False)
        self.outbox, theirs_out = Pipe(duplex=False)
        numbers = theirs_in.fileno(), theirs_out.fileno()
        with theirs_in, theirs_out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "millrace.trial.worker", *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=numbers,
                start_new_session=True,  # Ctrl-C reaches us alone, and we end it in order
            )

    def begin(self) -> None:
        """Tell it what to do."""
        with suppress(OSError):  # it is gone, which is noticed when it is listened to
            self.inbox.send(self._asked.given)

    def go(self) -> None:
        """The other side is there too."""
        self.waits_at = None
        with suppress(OSError):
            self.inbox.send(None)

    def listen(self) -> None:
        """Take one thing that it says. Raises Interrupted where somebody stopped it."""
        try:
            kind, said = self.outbox.recv()
        except (EOFError, OSError):
            kind, said = "result", self._gone()
        match kind:
            case "event":
                self._hear(said)
            case "arrived":
                self.waits_at = said
            case "result":
                self.result = said
            case "interrupted":
                raise Interrupted(said)
            case _:
                raise RuntimeError(f"the trial of {self.label} ended unexpectedly\n{said}")

    def _hear(self, event: TrialEvent) -> None:
        if isinstance(event, StepBegan):
            self._step = event.name
        self._asked.announce(event)

    def _gone(self) -> AttemptResult:
        """The result of a trial whose process ended without a word."""
        status = self._process.wait()
        how = f"with status {status}"
        if status < 0:
            how = f"by signal {-status} ({signal.Signals(-status).name})"
        return AttemptResult(
            "failed", failed_step=self._step, reason=f"the process of the trial was ended {how}"
        )

    def close(self) -> None:
        """Whatever it still does is not wanted any more."""
        self.inbox.close()
        self.outbox.close()

    def ended(self, until_s: float) -> bool:
        """Whether it ended by itself, leaving nothing behind; it has ended in any case."""
        try:
            status = self._process.wait(max(until_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        return status == 0


def _listen(sides: Sequence[_Side]) -> None:
    """Hear both until both have a result, or one has failed."""
    while at_work := [side for side in sides if side.result is None]:
        ready = wait([side.outbox for side in at_work])
        for side in at_work:
            if side.outbox in ready:
                side.listen()
            if side.result is not None and side.result.outcome != "finished":
                return
        places = {side.waits_at for side in sides}
        if len(places) == 1 and None not in places:
            for side in sides:
                side.go()


def _end(sides: Sequence[_Side]) -> None:
    for side in sides:
        side.close()
    until_s = time.monotonic() + _END_LIMIT_S
    in_order = [side.ended(until_s) for side in sides]
    if not all(in_order):
        # What a killed side left would disturb all that follows.
        processes.reap_orphans()


def _together(sides: Sequence[_Side]) -> tuple[AttemptResult, ...]:
    """The results of both; where one failed, the other is left out."""
    failed = next((s for s in sides if s.result and s.result.outcome == "failed"), None)
    if failed is None or failed.result is None:
        return tuple(side.result for side in sides if side.result is not None)
    said = str(failed.result.reason).partition("\n")[0]
    left_out = AttemptResult(
        "failed",
        failed_step=BESIDE,
        reason=f"{failed.label}, beside it, failed at step {failed.result.failed_step}: {said}",
    )
    return tuple(
        side.result
        if side.result is not None and side.result.outcome == "failed"
        else replace(
            side.result or left_out,
            outcome="failed", failed_step=left_out.failed_step, reason=left_out.reason,
        )
        for side in sides
    )  # fmt: skip
