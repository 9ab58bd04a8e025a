"""Test the lags of a replica that a sampler takes while two servers answer."""

import threading
from types import SimpleNamespace
from typing import cast

from millrace.databases.client import Session
from millrace.databases.replication import LogProgress, Replication
from millrace.errors import DatabaseError
from millrace.trial.replication import LagSampler

SESSION = cast(Session, object())


def sampler_of(answers: int) -> LagSampler:
    """Return the sampler, ended, of servers that fail after some ``answers``."""
    done = threading.Event()
    asked: list[None] = []

    def progress(*_servers: Session) -> LogProgress:
        asked.append(None)
        if len(asked) > answers:
            done.set()
            raise DatabaseError("no answer", kind="lost")
        if answers > 1:
            done.set()
        return LogProgress(
            written_bytes=9, received_bytes=9, applied_bytes=9, reported_lag_s=None, error=None
        )

    servers = SimpleNamespace(
        begin_heartbeat=lambda _source: None,
        beat=lambda _source, _at_s: None,
        last_beat_s=lambda _replica: 0.0,
        progress=progress,
    )
    sampler = LagSampler(cast(Replication, servers), SESSION, SESSION, with_heartbeat=True)
    sampler.start()
    assert done.wait(10)
    sampler.stop()
    return sampler


def test_servers_that_answer_to_the_end_have_lags() -> None:
    assert sampler_of(1_000).lags_s == [0.0]


def test_lags_that_a_failure_ended_early_are_no_figure() -> None:
    sampler = sampler_of(1)
    assert len(sampler.samples) == 1
    assert sampler.lags_s == []
