"""Sample how far a replica is behind its source, in a thread, a few times a second.

Positions in the source's log say how much is not applied yet. A heartbeat, a row of the source with
the time, says how old the newest change is that the replica shows: a server's own account counts
only what its applier works on, in whole seconds. A sample's lag is the last time that the source
committed less the one that the replica shows: a source that stalls does not count as lag, and a lag
below the interval is 0.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.databases.replication import Replication
from millrace.errors import DatabaseError
from millrace.store.lag import LagSample
from millrace.trial.hooks import LiveServer

_INTERVAL_S = 0.25


class LagSampler:
    """The samples of a replica while the block of ``sampling`` lasts."""

    def __init__(
        self, replication: Replication, source: Session, replica: Session, *, with_heartbeat: bool
    ) -> None:
        self._replication = replication
        self._source = source
        self._replica = replica
        self._with_heartbeat = with_heartbeat
        self._began_s = time.monotonic()
        self._beat_s = 0.0  # the last one that the source has committed
        self._over = threading.Event()
        self._is_whole = False
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.samples: list[LagSample] = []

    def start(self) -> None:
        """Take the first sample, and the others in a thread."""
        if self._with_heartbeat:
            self._replication.begin_heartbeat(self._source)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which may wait for an answer."""
        self._over.set()
        self._thread.join(timeout=QUERY_LIMIT_S)

    @property
    def lags_s(self) -> list[float]:
        """All lags by the heartbeat; none where a server's failure ended them early."""
        if not self._is_whole:
            return []
        return [each.lag_s for each in self.samples if each.lag_s is not None]

    def _sample(self) -> None:
        # Where a server is gone, the trial notices it, with more detail.
        with contextlib.suppress(DatabaseError, OSError, LookupError, TypeError, ValueError):
            while not self._over.is_set():
                self.samples.append(self._take())
                self._over.wait(_INTERVAL_S)
            self._is_whole = True

    def _take(self) -> LagSample:
        lag_s = None
        if self._with_heartbeat:
            lag_s = max(self._beat_s - (self._replication.last_beat_s(self._replica) or 0.0), 0.0)
            beat_s = round(time.monotonic() - self._began_s, 6)  # as it is written
            self._replication.beat(self._source, beat_s)
            self._beat_s = beat_s
        found = self._replication.progress(self._source, self._replica)
        return LagSample(
            t_s=time.monotonic() - self._began_s,
            written_bytes=found.written_bytes,
            received_bytes=found.received_bytes,
            applied_bytes=found.applied_bytes,
            lag_s=lag_s,
            reported_lag_s=found.reported_lag_s,
        )


@contextlib.contextmanager
def sampling(
    replication: Replication, source: LiveServer, replica: LiveServer, *, with_heartbeat: bool
) -> Iterator[LagSampler]:
    """Sample the replica inside the block."""
    with ExitStack() as opened:
        sessions = [
            opened.enter_context(closing(each.client.connect(limit_s=QUERY_LIMIT_S)))
            for each in (source, replica)
        ]
        sampler = LagSampler(replication, *sessions, with_heartbeat=with_heartbeat)
        sampler.start()
        opened.callback(sampler.stop)
        yield sampler
