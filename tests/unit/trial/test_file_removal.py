"""Test the time of removing files during maintenance."""

from typing import Any, cast

import pytest

from millrace.collect.server_processes import ServerProcesses
from millrace.errors import Unavailable
from millrace.host.tracing import Tracing
from millrace.loadgen.events import MaintenanceResult
from millrace.trial import file_removal
from millrace.trial.file_removal import FileCall, file_calls
from tests.support.measuring import BEGIN, live, measurement

TRACE = """\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
           <...>-30491   [000] ..... 65705.614864: sys_close(fd: 3)
  ib_srv_purge-30492   [001] ..... 65705.614900: sys_unlink(pathname: 0x7f929aa0fbc0)
           <...>-30491   [000] ..... 65705.614866: sys_close -> 0x0
 my sql) [1]-30492   (30490) [001] ..... 65705.617700: sys_unlink -> 0x0
           <...>-30493   [000] ..... 65705.620000: sys_ftruncate -> 0x0
           <...>-30491   [000] ..... 65705.630000: sys_unlinkat(dfd: 3, pathname: 0x1, flag: 0)
"""


def maintenance(from_s: float, until_s: float) -> MaintenanceResult:
    return MaintenanceResult(
        from_s=from_s, until_s=until_s, statements_s=(until_s - from_s,), parts=()
    )


def test_only_calls_during_maintenance_count() -> None:
    calls = [FileCall(1, "unlink", at_s, at_s + 0.5) for at_s in (99.0, 101.0, 102.0, 104.0)]
    assert file_removal.removal(calls, maintenance(1.0, 3.0), offset_s=100.0) == pytest.approx(1.0)


def test_a_workload_without_maintenance_is_not_traced() -> None:
    assert list(file_removal.hooks(measurement(live(object())), cast(Any, None))) == []


def test_a_kernel_that_traces_nothing_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Tracing:
        raise Unavailable("this kernel traces no events")

    measuring = measurement(live(object()))
    monkeypatch.setattr(type(measuring.spec.workload.checked), "has_maintenance", True)
    monkeypatch.setattr(file_removal, "processes_of", lambda _: ServerProcesses(1))
    monkeypatch.setattr(file_removal, "Tracing", refuse)
    assert list(file_removal.hooks(measuring, cast(Any, None))) == []
    facts = measuring.outputs.instances["server"].facts
    assert facts.file_removal_unknown == "this kernel traces no events"


def test_a_trace_that_cannot_begin_ends_no_trial() -> None:
    class Broken:
        def follow(self, _threads: object) -> None:
            raise FileNotFoundError("events/syscalls")

    measuring = measurement(live(object()))
    trace = file_removal.RemovalTrace(
        "server", measuring.outputs, ServerProcesses(1), cast(Tracing, Broken())
    )
    hook = file_removal.FileRemoval(measuring, trace)
    hook.on_event(BEGIN)


def test_calls_are_from_their_begin_to_their_end() -> None:
    assert list(file_calls(TRACE)) == [
        FileCall(30491, "close", 65705.614864, 65705.614866),
        FileCall(30492, "unlink", 65705.6149, 65705.6177),
    ]


def test_lines_of_other_forms_are_no_calls() -> None:
    assert list(file_calls("sys_close\n[LOST 3 EVENTS]\n-1 [0] . 1: sys_close(\n")) == []
