"""Test a load generator that is missing, refuses, hangs, dies, or prints too much.

The programs here are real processes: shell scripts that misbehave as the real one never should.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import __version__, databases
from millrace.errors import HostError, TrialFailed, UserError
from millrace.loadgen import client, program
from millrace.loadgen import events as load_events
from millrace.loadgen.events import DriveResult, Event, LoadResult, PhaseResult, Slice, read_event
from millrace.loadgen.spec import Connection, LoadSpec, Statement
from tests.support import made_events

SPEC = LoadSpec(
    Connection(user="u", password="p", socket=Path("/nowhere")), (), (Statement("s", ("x",), 5),)
)
FAR_AWAY_S = 600.0  # a limit long enough that waiting for it would be noticed
START = '{"type":"start","load_generator":"0.1.0","server_version":"5.6.24"}'
SUMMARY = (
    '{"type":"summary","statements":[{"name":"s","count":1,"errors":{"1290":2},"histogram":"HIST"}]'
    ',"client":{"user_s":0.5,"system_s":0.25,"voluntary_switches":3,"involuntary_switches":4,'
    '"max_rss_bytes":5},"bytes_sent":6,"bytes_received":7}'
)
PHASE = (
    '{"type":"phase","name":"s","kind":"statement","duration_s":1.5,"affected_rows":2,"warnings":3,"rows_sent":0,'
    '"bytes_sent":0,"generator_wait_s":null,"result":[["a",null]]}'
)

HISTOGRAM = '{"encoded":"HIST","count":3,"sum_s":0.5,"min_s":0.1,"max_s":0.2}'
RECORD = (
    '{"name":"point","count":3,"errors":{"1213":2},"retries":1,"rows":3,"affected_rows":0,'
    '"bytes_sent":30,"bytes_received":60,"service":HISTOGRAM,"response":null}'
).replace("HISTOGRAM", HISTOGRAM)
DRIVEN = (
    '{"type":"phase","kind":"drive","name":"measure","primary":true,"duration_s":1.0,'
    '"warmup_s":0.5,"connect_s":0.1,"partial":PARTIAL,"partial_reason":REASON,"clients":2,"threads":1,'
    '"protocol":"text","test":"point","busy_poll":false,"cpus":null,"pacing":{"kind":"closed"},'
    '"mean_gap_s":0.001,"transactions":[RECORD],"statements":[RECORD],"client":{"user_s":1.0,"system_s":0.5,"voluntary_switches":1,"involuntary_switches":2}}'
).replace("RECORD", RECORD)
LOADED = (
    '{"type":"phase","name":"load","kind":"load_tables","duration_s":1.5,"affected_rows":2,'
    '"warnings":0,"rows_sent":2,"bytes_sent":9,"generator_wait_s":null,"result":null,'
    '"tables":[{"name":"t1","rows":2,"bytes":9,"checksum":"77","load_s":1.0,"after_load_s":0.5}],'
    '"method":"multi_row","method_reason":"LOCAL is off"}'
)

Acting = Callable[[str], None]


@pytest.fixture
def acting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Acting:
    """Return a function that puts a shell script in the place of the load generator."""

    def make(script: str) -> None:
        program = tmp_path / "millrace-load"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("MILLRACE_LOAD", str(program))

    return make


def error(message: str, code: int | None, phase: str = "load", **more: object) -> str:
    state = None if code is None else "HY000"
    text = None if code is None else str(code)
    about = {"phase": phase, "kind": "server", "code": text, "sqlstate": state, **more}
    return json.dumps({"type": "error", "message": message, **about})


def failure_of(acting: Acting, *lines: str, spec: LoadSpec = SPEC) -> client.LoadFailed:
    """Return the failure of a run whose load generator prints ``lines`` and exits with 1."""
    acting("\n".join(("cat >/dev/null; cat <<'END'", *lines, "END", "exit 1")))
    with pytest.raises(client.LoadFailed) as caught:
        client.run(spec, limit_s=FAR_AWAY_S)
    return caught.value


def success_of(acting: Acting, *lines: str) -> tuple[LoadResult, list[Event]]:
    """Return the result and the events of a run whose load generator prints ``lines``."""
    acting("\n".join(("cat >/dev/null; cat <<'END'", *lines, "END")))
    events: list[Event] = []
    return client.run(SPEC, on_event=events.append, limit_s=FAR_AWAY_S), events


def test_a_good_run_becomes_a_result(acting: Acting) -> None:
    interval = '{"type":"interval","phase":"s","t_s":1.0,"rows":5,"bytes":9}'
    result, events = success_of(acting, START, interval, PHASE, SUMMARY)
    assert [event.type for event in events] == ["start", "interval", "phase", "summary"]
    assert result.server_version == "5.6.24"
    [phase] = result.phases
    assert isinstance(phase, PhaseResult)
    assert (phase.name, phase.kind, phase.duration_s) == ("s", "statement", 1.5)
    assert (phase.affected_rows, phase.warnings) == (2, 3)
    assert phase.result == (("a", None),)
    assert result.driven() is None
    assert result.client is not None
    assert (result.client.user_s, result.client.max_rss_bytes) == (0.5, 5)


def driven(reason: str | None = None) -> str:
    said = "null" if reason is None else f'"{reason}"'
    return DRIVEN.replace("PARTIAL", str(reason is not None).lower()).replace("REASON", said)


def test_tables_and_clients_become_results(acting: Acting) -> None:
    mark = '{"type":"mark","phase":"measure","mark":"measure_started","t_s":0.6}'
    interval = json.dumps(made_events.interval().model_dump())
    other = driven().replace('"name":"measure","primary":true', '"name":"before","primary":false')
    lines = (START, LOADED, other, mark, interval, driven(), SUMMARY)
    result, events = success_of(acting, *lines)
    assert [event.type for event in events][3:5] == ["mark", "interval"]
    loaded, before, measured = result.phases
    assert isinstance(loaded, load_events.TablesResult)
    assert [(table.rows, table.bytes) for table in loaded.tables] == [(2, 9)]
    assert (loaded.method, loaded.method_reason) == ("multi_row", "LOCAL is off")
    assert isinstance(measured, DriveResult)
    assert isinstance(before, DriveResult)
    assert measured is result.driven()
    assert measured.transactions[0].errors == {"1213": 2}
    assert measured.transactions[0].service.encoded == "HIST"
    assert measured.transactions[0].response is None
    assert measured.pacing.kind == "closed"
    assert not measured.partial


def in_slices(slices: object) -> dict[str, object]:
    line: dict[str, object] = json.loads(driven())
    records = {name: line[name] for name in ("transactions", "statements")}
    return {**line, "sides": [{**records, "rollbacks": 0, "mean_gap_s": 0.1}] * 2, "slices": slices}


def test_slices_become_records() -> None:
    result = read_event(in_slices([[0, 5, 7, 150, 0], [1, 7, 9, 151, 1]]))
    assert isinstance(result, DriveResult)
    assert result.slices is not None
    assert result.slices[1] == Slice(side=1, from_ns=7, until_ns=9, transactions=151, rested_ns=1)
    assert result.sides is not None
    assert result.sides[1].transactions[0].count == 3
    assert read_event(result.to_json()) == result
    figures = result.figures()
    assert "HIST" not in json.dumps(figures)
    assert "slices" not in figures
    alone = read_event({**in_slices(None), "sides": None})
    assert isinstance(alone, DriveResult)
    assert (alone.sides, alone.slices, alone.figures()["sides"]) == (None, None, None)


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ([[2, 1, 2, 3, 0]], "unknown side"),
        ([[0, 3, 2, 3, 0]], "ends before it begins"),
        ([[0, 1, 2]], r"slices\.0\.3: Field required"),
        ([[0, 1, 2, 3, 4, 5]], r"slices\.0"),
        ([[0, -1, 2, 3, 4]], r"slices\.0\.1: Input should be greater than or equal to 0"),
        ([[0, 1.5, 2, 3, 4]], r"slices\.0\.1: Input should be a valid integer"),
        ([["0", 1, 2, 3, 4]], r"slices\.0\.0: Input should be a valid integer"),
        ({}, "slices: Input should be a valid tuple"),
    ],
)
def test_slices_that_are_none_are_refused(slices: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_event(in_slices(slices))


@pytest.mark.parametrize("ending", ["", f"\n{SUMMARY}"])
def test_what_clients_did_before_the_end_is_kept(acting: Acting, ending: str) -> None:
    why = "lost the connection"
    failure = failure_of(acting, START, driven(why), error(why, None) + ending)
    assert why in failure.message
    assert failure.result is not None
    kept = failure.result.driven()
    assert kept is not None
    assert kept.partial
    assert kept.transactions[0].count == 3


def test_a_failure_to_log_in_has_no_result(acting: Acting) -> None:
    failure = failure_of(acting, error("Access denied", 1045, phase="connect"))
    assert "Access denied" in failure.message
    assert failure.result is None


def test_a_failed_phase_keeps_its_side_and_the_words_of_the_server(acting: Acting) -> None:
    failure = failure_of(acting, START, error("Disk full", 1021), SUMMARY)
    assert failure.message == "load: Disk full (error 1021, SQLSTATE HY000)"
    assert (failure.hint, failure.step, failure.side) == (None, "load", None)
    assert failure_of(acting, START, error("no such table", 1146, side=1)).side == 1


@pytest.mark.parametrize("code", [1148, 3948, 4166])
def test_a_server_that_takes_no_local_files_gets_a_hint(acting: Acting, code: int) -> None:
    spec = replace(SPEC, error_hints=databases.get("mysql").load_dialect.error_hints)
    refused = error("The used command is not allowed", code)
    failure = failure_of(acting, START, refused, SUMMARY, spec=spec)
    assert "SET GLOBAL local_infile=1" in (failure.hint or "")


@pytest.mark.parametrize(
    ("version", "hints"), [("9.9", "millrace-load has 9.9: run `make setup`"), (__version__, "")]
)
def test_refused_specification_hints_at_versions_where_they_differ(
    acting: Acting, version: str, hints: str
) -> None:
    answer = json.dumps({"load_generator": version})
    acting(f"[ \"$2\" = version ] && echo '{answer}' && exit 0; echo 'rate: wrong' >&2; exit 2")
    with pytest.raises(HostError, match="refused its specification: rate: wrong") as caught:
        client.run(SPEC, limit_s=FAR_AWAY_S)
    assert (caught.value.hint or "").endswith(hints)
    assert bool(caught.value.hint) == bool(hints)


def test_failed_statement_is_part_of_the_reason(acting: Acting) -> None:
    failure = failure_of(acting, START, error("near ''", 1064, statement="CREATE\nPROCEDURE"))
    reason = "near '' (error 1064, SQLSTATE HY000); the statement: CREATE\\nPROCEDURE"
    assert failure.message == f"load: {reason}"


REFUSED = "echo 'millrace-load: -: version: 2 is not known, expected 3' >&2; exit 2"
CUT_OFF = f"cat >/dev/null; echo '{START}'; printf '{{\"type\":\"int'; kill -9 $$"


@pytest.mark.parametrize(
    ("script", "said", "hints"),
    [
        pytest.param(REFUSED, "refused its specification: -: version: 2", True, id="is older"),
        pytest.param(CUT_OFF, "killed by SIGKILL", False, id="is killed"),
        pytest.param(
            f"cat >/dev/null; echo '{START}'", "without an error message", False, id="ends early"
        ),
    ],
)
def test_program_that_fails_is_an_error_of_the_host(
    acting: Acting, script: str, said: str, hints: bool
) -> None:
    acting(script)
    with pytest.raises(HostError, match=said) as caught:
        client.run(SPEC, limit_s=FAR_AWAY_S)
    assert ("make setup" in (caught.value.hint or "")) is hints


def test_a_program_that_hangs_is_ended(acting: Acting, tmp_path: Path) -> None:
    acting(f"echo $$ > {tmp_path}/pid; cat >/dev/null; exec sleep 600")
    with pytest.raises(TrialFailed, match=r"time limit of 0\.5 s"):
        client.run(SPEC, limit_s=0.5)
    assert_gone(tmp_path)


def test_what_the_listener_raises_ends_the_program(acting: Acting, tmp_path: Path) -> None:
    acting(f"echo $$ > {tmp_path}/pid; cat >/dev/null; echo '{START}'; exec sleep 600")

    def listener(_event: Event) -> None:
        raise TrialFailed("the server is gone")

    with pytest.raises(TrialFailed, match="the server is gone"):
        client.run(SPEC, on_event=listener, limit_s=FAR_AWAY_S)
    assert_gone(tmp_path)


def assert_gone(directory: Path) -> None:
    pid = int((directory / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_program_dies_with_its_parent(tmp_path: Path) -> None:
    child = textwrap.dedent(
        """
        import subprocess, sys, time
        from millrace.loadgen.program import find_load_generator
        # It reads standard input, which never comes.
        process = subprocess.Popen(
            [find_load_generator(), "--die-with-parent", "run", "-"], stdin=subprocess.PIPE
        )
        print(process.pid, flush=True)
        time.sleep(600)
        """
    )
    source = Path(client.__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", child],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    asleep(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    while is_alive(pid):
        os.sched_yield()


def asleep(pid: int) -> None:
    """Wait until the program has started and waits for its specification."""
    command = Path(f"/proc/{pid}/cmdline")
    while "millrace-load" not in command.read_text() or state_of(pid) != "S":
        assert is_alive(pid)
        os.sched_yield()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_alive(pid: int) -> bool:
    try:
        return state_of(pid) != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_named_program_must_be_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "absent"):
        monkeypatch.setenv("MILLRACE_LOAD", str(wrong))
        with pytest.raises(UserError, match="not an executable file"):
            program.find_load_generator()


def test_no_program_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MILLRACE_LOAD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(HostError, match="neither next to") as caught:
        program.find_load_generator()
    assert "make setup" in (caught.value.hint or "")
    beside = tmp_path / "millrace-load"
    beside.write_text("")
    beside.chmod(0o755)
    assert program.find_load_generator() == beside
