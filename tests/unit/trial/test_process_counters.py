"""Test what the processes of servers used between both edges of the measured part."""

from contextlib import ExitStack
from typing import Any

import pytest

from millrace.host.cpu_clock import CpuTime
from millrace.model import measurements as names
from millrace.trial import process_counters
from millrace.trial.hooks import OpenHooks
from tests.support.measuring import BEGIN, END, RESULT, live, measured, measurement


class Processes:
    """Processes that use the next figures each time that someone asks, until they are gone."""

    def __init__(self, *figures: Any) -> None:
        self._figures = list(figures)

    def _next(self) -> Any:
        if not self._figures:
            raise FileNotFoundError("no such process")
        return self._figures.pop(0)

    cpu_time = read_bytes = _next


def found(
    monkeypatch: pytest.MonkeyPatch, hooks: OpenHooks, processes: Processes | None
) -> dict[str, float]:
    """Return the measurements of a server with these processes."""
    monkeypatch.setattr(process_counters, "processes_of", lambda _client: processes)
    measuring = measurement(live(None))
    for hook in hooks(measuring, ExitStack()):
        hook.on_event(BEGIN)
        hook.on_event(END)
        hook.contribute(RESULT)
    return measured(measuring)


def test_cpu_time_is_that_between_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(CpuTime(1.0, 2.0, 3_000_000_000), CpuTime(2.0, 2.5, 4_500_000_000))
    values = found(monkeypatch, process_counters.cpu_hooks, processes)
    assert values[names.SERVER_USER_S] == pytest.approx(1.0)
    assert values[names.SERVER_SYSTEM_S] == pytest.approx(0.5)


def test_reads_are_those_between_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    values = found(monkeypatch, process_counters.read_hooks, Processes(100, 4_196))
    assert values == {names.SERVER_READ_BYTES: 4_096}


@pytest.mark.parametrize("processes", [None, Processes(), Processes(100)])
def test_servers_that_are_hidden_or_gone_have_no_figures(
    monkeypatch: pytest.MonkeyPatch, processes: Processes | None
) -> None:
    assert found(monkeypatch, process_counters.read_hooks, processes) == {}
