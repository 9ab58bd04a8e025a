"""Execute the two trials of a pair at the same time, each in a worker on its half of the CPUs.

Both start their measurements together (see ``barrier``), and count together or not at all: where
one fails, at whatever step and for whatever reason, the other is ended and left out, so that every
counted trial was measured concurrently for the whole time. A worker ends when its input closes,
which also happens when this process is killed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import IO

from millrace.errors import Interrupted
from millrace.model.events import StepBegan, TrialEvent
from millrace.servers.instances import ownership
from millrace.servers.instances.signals import ending, signals_held
from millrace.store.records import AttemptResult
from millrace.trial import trial_document as documents
from millrace.trial.group import GroupTrial, joined

COMMAND = (sys.executable, "-P", "-m", "millrace.trial.worker")

# A server has 15 s to end politely; removing its files takes some more.
_END_LIMIT_S = 90.0


def execute_pair(pair: Sequence[GroupTrial]) -> tuple[AttemptResult, ...]:
    """Execute both trials: both finish or both fail. Raise Interrupted once both have closed."""
    messages: _Messages = SimpleQueue()
    workers: list[_Worker] = []
    try:
        workers.extend(_Worker(trial, messages) for trial in pair)
        for worker in workers:
            worker.begin()
        _follow(workers, messages)
    finally:
        with signals_held():
            _end(workers)
    return joined(pair, [worker.result for worker in workers], of="pair")


class _Worker:
    """The process of one trial; ``result`` is None until it ends, ``waits_at`` unless it waits."""

    def __init__(self, trial: GroupTrial, messages: _Messages) -> None:
        self.label = trial.label
        self.result: AttemptResult | None = None
        self.waits_at: str | None = None
        self._trial = trial
        self._step = "prepare"
        self._messages = messages
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends both in order
        )
        threading.Thread(target=self._read, daemon=True).start()

    def begin(self) -> None:
        """Send the trial."""
        self._send(documents.write_line(documents.trial_document(self._trial.spec)))

    def go_on(self) -> None:
        """End the wait: the other trial has reached the point, too."""
        self.waits_at = None
        self._send(b"\n")

    def handle(self, message: documents.Message | documents.InvalidDocument | None) -> None:
        """Handle a message, None at the worker's end. Raise Interrupted if it was stopped."""
        match message:
            case documents.EventMessage(event=event):
                self._on_event(event)
            case documents.WaitMessage(point=point):
                self.waits_at = point
            case documents.ResultMessage(result=result):
                self.result = result
            case documents.EndMessage(kind="interrupted", text=text):
                raise Interrupted(text)
            case documents.EndMessage(text=text):
                raise RuntimeError(f"the trial of {self.label} ended unexpectedly\n{text}")
            case documents.InvalidDocument():
                raise RuntimeError(f"the trial of {self.label} ended unexpectedly") from message
            case None if self.result is None:
                self.result = self._died()

    def close(self) -> None:
        """Give up whatever the worker still does."""
        with suppress(OSError):  # what was not sent to a worker that is gone
            _pipe(self._process.stdin).close()

    def ended(self, until_s: float) -> bool:
        """End the worker; return whether it ended itself, so that nothing of it is left."""
        try:
            status = self._process.wait(max(until_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        return status == 0

    def _send(self, line: bytes) -> None:
        with suppress(OSError):  # it is gone, which its output shows
            pipe = _pipe(self._process.stdin)
            pipe.write(line)
            pipe.flush()

    def _read(self) -> None:
        """Pass the worker's messages on, in a thread of their own."""
        with _pipe(self._process.stdout) as lines, suppress(OSError):
            while line := lines.readline(documents.LONGEST_LINE_BYTES):
                try:
                    self._messages.put((self, documents.read_message(line)))
                except documents.InvalidDocument as error:
                    if line.endswith(b"\n"):
                        self._messages.put((self, error))
                    break  # a killed worker leaves a truncated line
        self._messages.put((self, None))

    def _on_event(self, event: TrialEvent) -> None:
        if isinstance(event, StepBegan):
            self._step = event.name
        self._trial.emit(event)

    def _died(self) -> AttemptResult:
        how = ending(self._process.wait())
        return AttemptResult(
            "failed", failed_step=self._step, reason=f"the process of the trial ended: {how}"
        )


_Messages = SimpleQueue[tuple[_Worker, documents.Message | documents.InvalidDocument | None]]


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # each worker has both pipes
    return pipe


def _follow(workers: Sequence[_Worker], messages: _Messages) -> None:
    """Handle messages until both trials have a result, or one has failed."""
    while any(worker.result is None for worker in workers):
        worker, message = messages.get()
        worker.handle(message)
        if worker.result is not None and worker.result.outcome != "finished":
            return
        points = {each.waits_at for each in workers}
        if len(points) == 1 and None not in points:
            for each in workers:
                each.go_on()


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.close()
    until_s = time.monotonic() + _END_LIMIT_S
    in_order = [worker.ended(until_s) for worker in workers]
    if not all(in_order):
        # The remains of a killed worker would disturb all later trials.
        ownership.reap_orphans()
