"""Run the load generator for a trial, and let a server in trouble explain a failure."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millrace.errors import TrialFailed
from millrace.loadgen import client as load_generator
from millrace.loadgen.events import DriveInterval, Event, Interval, LoadResult
from millrace.loadgen.spec import LoadSpec
from millrace.model.events import IntervalEnded, TrialEvent
from millrace.trial import phase_spec
from millrace.trial.hooks import LiveServer
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.workloads import Phase

Emit = Callable[[TrialEvent], None]
OnEvent = Callable[[Event], None]

Check = Callable[[], None]
"""Raise TrialFailed where a server itself knows why it is in trouble."""

_PARTIAL_LIMIT_S = 10.0


def run_phases(
    phases: Sequence[Phase],
    workload: ResolvedWorkload,
    server: LiveServer,
    emit: Emit,
    limit_s: float,
) -> LoadResult:
    """Run phases that prepare a server, by the shortest way to it."""
    load_spec = phase_spec.load_spec(phases, workload, server.dialect, server.connection)
    return run_load(load_spec, server.check, emit, limit_s)


def run_load(
    load_spec: LoadSpec,
    check: Check,
    emit: Emit,
    limit_s: float,
    on_event: OnEvent = lambda _event: None,
    *,
    drives: bool = False,
    keep_partial: Callable[[LoadResult], None] = lambda _result: None,
) -> LoadResult:
    """Run a load; ``on_event`` gets its events first.

    A server's trouble ends a load at once, and measured clients (``drives``) after some seconds, so
    that the load generator notices it too and reports their work until then, which ``keep_partial``
    gets.
    """
    trouble = _Trouble(check, _PARTIAL_LIMIT_S if drives else 0.0)

    def handle(event: Event) -> None:
        on_event(event)
        _emit_interval(event, emit)
        trouble.look()

    try:
        result = load_generator.run(load_spec, on_event=handle, limit_s=limit_s)
    except load_generator.LoadFailed as failure:
        if failure.result is not None:
            keep_partial(failure.result)
        trouble.raise_found()
        _let_the_server_explain(check)
        raise
    try:
        trouble.raise_found()
    except TrialFailed:
        keep_partial(result)
        raise
    return result


@dataclass
class _Trouble:
    """The first trouble of a server, raised once it is ``grace_s`` old."""

    _check: Check
    _grace_s: float
    _found: TrialFailed | None = None
    _since_s: float = 0.0

    def look(self) -> None:
        """Check the server, and raise its trouble after the grace."""
        try:
            self._check()
        except TrialFailed as trouble:
            if self._found is None:
                self._found, self._since_s = trouble, time.monotonic()
        if time.monotonic() - self._since_s >= self._grace_s:
            self.raise_found()

    def raise_found(self) -> None:
        """Raise the trouble, if there is one."""
        if self._found is not None:
            raise self._found


def _emit_interval(event: Event, emit: Emit) -> None:
    if isinstance(event, Interval):
        drive = event if isinstance(event, DriveInterval) else None
        emit(
            IntervalEnded(
                phase=event.phase,
                t_s=event.t_s,
                rows=event.rows,
                kind=None if drive is None else drive.kind,
                part=None if drive is None else drive.part,
            )
        )


def _let_the_server_explain(check: Check) -> None:
    """Raise the server's own reason; a killed process closes its sockets before it is gone."""
    for _ in range(10):
        check()
        time.sleep(0.1)
