"""Execute a trial in a process of its own: ``python -m millrace.trial.worker``.

The process reads one line of JSON with the trial from its standard input (see ``trial_document``),
and writes lines of JSON to its standard output: events, waits, and the result. It writes nothing to
the store. Its server, load generator and collectors inherit its CPUs, and its event loop waits for
nobody.

Each further line of its input ends a wait. Where the input ends, the sender has given the trial up
or is gone: the trial then ends as by Ctrl-C, and nothing of it is left.
"""

import os
import signal
import threading
import traceback
from contextlib import ExitStack, suppress
from typing import BinaryIO

from millrace.errors import Interrupted
from millrace.model.events import TrialEvent
from millrace.servers.instances.signals import signals_as_errors, signals_held
from millrace.store.records import AttemptResult
from millrace.trial import trial_document as documents
from millrace.trial.execute import execute_trial, is_transient, reason_of
from millrace.trial.steps import EXPECTED_FAILURES


class Worker:
    """The sender of a trial, as this process sees it: lines in, lines out."""

    def __init__(self, inbox: BinaryIO, outbox: BinaryIO) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._may_go_on = threading.Event()
        self._is_over = False

    def run(self) -> None:
        """Read a trial, execute it and send its result. Raise Interrupted."""
        line = self._inbox.readline(documents.LONGEST_LINE_BYTES)
        if not line:
            return None
        try:
            trial = documents.read_trial(line)
            if trial.cpu_partition is not None:
                os.sched_setaffinity(0, trial.cpu_partition.cpus)
        except (documents.InvalidDocument, OSError) as error:
            return self.send(documents.EndMessage(kind="invalid", text=str(error)))
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self.send(documents.ResultMessage(kind="result", result=self._execute(trial)))
        finally:
            self._is_over = True
        return None

    def send(self, message: documents.Message) -> None:
        """Write a message, uninterrupted."""
        line = documents.write_line(message)
        with signals_held():
            self._outbox.write(line)
            self._outbox.flush()

    def _execute(self, trial: documents.TrialDocument) -> AttemptResult:
        def emit(event: TrialEvent) -> None:
            self.send(documents.EventMessage(kind="event", event=event))

        with ExitStack() as opened:
            try:
                spec = documents.resolve(trial, opened)
            except Interrupted:
                raise
            except EXPECTED_FAILURES as error:
                return AttemptResult(
                    "failed",
                    failed_step="prepare",
                    reason=reason_of(error),
                    is_transient=is_transient(error),
                )
            return execute_trial(spec, emit, self._wait)

    def _wait(self, point: str) -> None:
        self._may_go_on.clear()
        self.send(documents.WaitMessage(kind="wait", point=point))
        self._may_go_on.wait()

    def _listen(self) -> None:
        with suppress(OSError):
            while self._inbox.readline(documents.LONGEST_LINE_BYTES):
                self._may_go_on.set()
        if not self._is_over:
            # To the main thread, which may be in a wait that only a signal ends.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def main() -> None:
    """Execute one trial, and report whatever ends it as long as somebody listens."""
    with _stream(0, "rb") as inbox, _stream(1, "wb") as outbox:
        worker = Worker(inbox, outbox)
        with suppress(OSError):
            try:
                with signals_as_errors():
                    worker.run()
            except Interrupted as stopped:
                worker.send(documents.EndMessage(kind="interrupted", text=str(stopped)))
            except BaseException:
                worker.send(documents.EndMessage(kind="defect", text=traceback.format_exc()))


def _stream(number: int, mode: str) -> BinaryIO:
    """Take over a standard stream, so that nothing else in this process uses it."""
    stream = os.fdopen(os.dup(number), mode)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, number)
    os.close(nothing)
    return stream  # type: ignore[return-value]


if __name__ == "__main__":
    main()
