"""The process of one trial of a pair: ``python -m millrace.trial.pair_worker IN OUT``.

A process of its own has its own CPUs, which its server, load generator and observers inherit, and
an event loop that waits for nobody. It is told its trial through the pipe IN, answers through OUT
(see ``beside``), and writes nothing to the store. When IN ends, whoever wanted the trial has given
it up or is gone: the trial then ends as on Ctrl-C, and nothing of it is left.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection

from millrace.errors import Interrupted
from millrace.model.events import TrialEvent
from millrace.servers.instances.signals import signals_as_errors, signals_held
from millrace.trial.execute import execute_trial
from millrace.trial.spec import TrialSpec


class Pair:
    """The pair that this process carries out a trial of, as it sees it."""

    def __init__(self, inbox: Connection, outbox: Connection) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._together = threading.Event()
        self._is_over = False

    def take_part(self) -> None:
        """Be told the trial, carry it out, tell what came of it."""
        given: TrialSpec = self._inbox.recv()
        assert given.cpu_partition is not None
        os.sched_setaffinity(0, given.cpu_partition.cpus)
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            result = execute_trial(given, self._announce, self._meet)
        finally:
            self._is_over = True
        self.tell("result", result)

    def tell(self, kind: str, said: object) -> None:
        """Say it, as a whole."""
        with signals_held():
            self._outbox.send((kind, said))

    def _announce(self, event: TrialEvent) -> None:
        self.tell("event", event)

    def _meet(self, where: str) -> None:
        self._together.clear()
        self.tell("arrived", where)
        self._together.wait()

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._inbox.recv()
                self._together.set()
        if not self._is_over:
            # To the thread that works: it may be waiting for something that only a signal ends.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def main() -> None:
    """Carry out one trial of a pair. Whatever ends it is told, as long as somebody listens."""
    inbox, outbox = (Connection(int(number)) for number in sys.argv[1:3])
    pair = Pair(inbox, outbox)
    with suppress(OSError):
        try:
            with signals_as_errors():
                pair.take_part()
        except Interrupted as stopped:
            pair.tell("interrupted", str(stopped))
        except EOFError:
            return
        except BaseException:
            pair.tell("defect", traceback.format_exc())


if __name__ == "__main__":
    main()
