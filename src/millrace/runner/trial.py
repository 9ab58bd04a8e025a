"""One trial of one treatment: the declared steps, and the result that is stored.

    our own server        settle · initialise · start · record · database · phases · stop · sizes
    an attached server    settle · connect · record · database · phases · drop

The phases (create, load, finish, count, verify of the load-data workload) come from the workload
and are carried out by the load generator on one connection. A step that fails ends the trial as a
failed one, with the step, the reason and the end of the server's log.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.errors import TrialFailed
from millrace.experiment.model import PlannedTrial
from millrace.load import client as load
from millrace.load.spec import Connection, RunSpec
from millrace.runner import phases
from millrace.runner.steps import EXPECTED_FAILURES, Step, carry_out
from millrace.servers import families, instances
from millrace.servers.attached import AttachedInstance
from millrace.servers.model import (
    AttachedServer,
    FittedOptions,
    InstalledServer,
    Server,
    as_data,
)
from millrace.store.records import (
    AttemptResult,
    InstanceRecord,
    MeasurementRecord,
    OptionRecord,
    ServerRecord,
    StepRecord,
)

DATABASE = "millrace"

_SETTLE_LIMIT_S = 600.0
_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 180.0
_ASK_LIMIT_S = 60.0
_STOP_LIMIT_S = 600.0  # a clean stop writes every dirty page


@dataclass(frozen=True)
class TrialInput:
    """All that a trial needs: decided before it starts, the same for every trial of a treatment."""

    trial: PlannedTrial
    server: Server
    options: FittedOptions
    workload: Mapping[str, Any]
    parameters: Mapping[str, Any]
    expected: load.DataChecksum
    data_file: phases.DataFile | None


@dataclass
class _Found:
    """What a trial has found so far; it is kept when a later step fails."""

    instances: list[InstanceRecord] = field(default_factory=list)
    measurements: list[MeasurementRecord] = field(default_factory=list)
    log_tail: Callable[[], str | None] = lambda: None
    log: bytes | None = None


Announce = Callable[[Mapping[str, Any]], None]


def carry_out_trial(given: TrialInput, announce: Announce) -> AttemptResult:
    """Carry the trial out and return its result; a failure is a result.

    ``announce`` gets events as plain data: {"event": "step", "name": ...} before each step and
    {"event": "interval", "phase", "t_s", "rows"} once a second while rows are sent. Raises
    Interrupted, after everything was closed, when the user stops the run.
    """
    found = _Found()
    log_tail: str | None = None
    with ExitStack() as opened:
        if isinstance(given.server, AttachedServer):
            steps = _attached_steps(given, given.server, opened, found, announce)
        else:
            steps = _own_steps(given, given.server, opened, found, announce)
        ended = carry_out(steps, lambda step: announce({"event": "step", "name": step}))
        if ended.cause is not None:
            told = ended.cause.log_tail if isinstance(ended.cause, TrialFailed) else None
            log_tail = told or found.log_tail()
    return AttemptResult(
        outcome="finished" if ended.cause is None else "failed",
        steps=ended.steps,
        instances=tuple(found.instances),
        measurements=tuple(found.measurements),
        failed_step=ended.failed,
        reason=None if ended.cause is None else str(ended.cause) or type(ended.cause).__name__,
        log_tail=log_tail,
        artefacts=() if found.log is None else (("error_log", "server", found.log),),
    )


def _own_steps(
    given: TrialInput,
    server: InstalledServer,
    opened: ExitStack,
    found: _Found,
    announce: Announce,
) -> Sequence[Step]:
    instance = opened.enter_context(instances.create(server, given.options))
    found.log_tail = instance.log_tail
    run_spec = phases.spec(
        given.workload,
        given.parameters,
        given.trial.treatment.resolved,
        Connection(
            socket=instance.socket,
            user=instance.user,
            password=instance.password,
            database=DATABASE,
        ),
        given.data_file and _linked_into(instance.load_dir, given.data_file),
    )

    def initialise(limit_s: float) -> None:
        instance.initialise(limit_s)

    def start(limit_s: float) -> None:
        instance.start(limit_s)

    def record(_limit_s: float) -> None:
        effective = instance.effective()
        facts = {"runs_as": instance.runs_as}
        found.instances.append(_instance_record(given, instance.version(), effective, facts))

    def database(_limit_s: float) -> None:
        instance.query(f"CREATE DATABASE {DATABASE}")

    def measure(limit_s: float) -> Sequence[StepRecord]:
        def watch() -> None:
            instance.check_alive()
            trouble = instance.trouble()
            if trouble is not None:
                raise TrialFailed(trouble, log_tail=instance.log_tail())

        return _measure(given, run_spec, found, announce=announce, watch=watch, limit_s=limit_s)

    def stop(limit_s: float) -> None:
        instance.stop(limit_s)
        found.log = instance.error_log.read_bytes()

    def sizes(_limit_s: float) -> None:
        found.measurements.extend(_sizes(instance.data_dir, given.workload["data"]["table"]))

    return (
        Step("settle", _settle(given.data_file), _SETTLE_LIMIT_S),
        Step("initialise", initialise, _INITIALISE_LIMIT_S),
        Step("start", start, _START_LIMIT_S),
        Step("record", record, _ASK_LIMIT_S),
        Step("database", database, _ASK_LIMIT_S),
        Step("measure", measure, phases.limit_s(run_spec)),
        Step("stop", stop, _STOP_LIMIT_S),
        Step("sizes", sizes, _ASK_LIMIT_S),
    )


def _attached_steps(
    given: TrialInput,
    server: AttachedServer,
    opened: ExitStack,
    found: _Found,
    announce: Announce,
) -> Sequence[Step]:
    attached = AttachedInstance(server)
    # Named by the trial, so that what an interrupted attempt left there is dropped by the next.
    database_name = f"millrace_{given.trial.id.replace('-', '_')}"
    run_spec = phases.spec(
        given.workload,
        given.parameters,
        given.trial.treatment.resolved,
        Connection(
            socket=attached.socket,
            host=attached.host,
            port=attached.port,
            user=attached.user,
            password=attached.password,
            database=database_name,
        ),
        None,
    )

    def drop(_limit_s: float | None = None) -> None:
        attached.query(f"DROP DATABASE IF EXISTS {database_name}")

    def record(_limit_s: float) -> None:
        effective = attached.effective()
        facts = {"attached": True, "limits": list(attached.limits)}
        found.instances.append(_instance_record(given, attached.version(), effective, facts))

    def database(_limit_s: float) -> None:
        drop()
        opened.callback(_ignoring_failures(drop))
        attached.query(f"CREATE DATABASE {database_name}")

    def measure(limit_s: float) -> Sequence[StepRecord]:
        return _measure(
            given, run_spec, found, announce=announce, watch=lambda: None, limit_s=limit_s
        )

    return (
        Step("settle", _settle(None), _SETTLE_LIMIT_S),
        Step("record", record, _ASK_LIMIT_S),
        Step("database", database, _ASK_LIMIT_S),
        Step("measure", measure, phases.limit_s(run_spec)),
        Step("drop", drop, _STOP_LIMIT_S),
    )


def _ignoring_failures(action: Callable[[], None]) -> Callable[[], None]:
    """For clean-up after a failure: what is lost already must not hide why it was lost."""

    def attempt() -> None:
        with contextlib.suppress(*EXPECTED_FAILURES):
            action()

    return attempt


def _measure(
    given: TrialInput,
    run_spec: RunSpec,
    found: _Found,
    *,
    announce: Announce,
    watch: Callable[[], None],
    limit_s: float,
) -> Sequence[StepRecord]:
    """The workload's phases, watched once a second, verified, and turned into measurements."""

    def tick(event: Mapping[str, Any]) -> None:
        if event.get("type") == "interval":
            announce({"event": "interval", **event})
        watch()

    try:
        result = load.run(run_spec, on_event=tick, limit_s=limit_s)
    except TrialFailed:
        _let_the_server_explain(watch)
        raise
    phases.verify(given.workload, result, given.expected)
    found.measurements.extend(phases.measurements(result, given.expected))
    return phases.step_records(result)


def _let_the_server_explain(watch: Callable[[], None]) -> None:
    """Raise what the server's own end or words say about a failure, which the client only sees as
    a lost connection; a process that was killed closes its sockets a moment before it is gone."""
    for _ in range(10):
        watch()
        time.sleep(0.1)


def _settle(data_file: phases.DataFile | None) -> Callable[[float], None]:
    """Write back what earlier work left dirty, and have a data file in the page cache, so that
    every trial starts from the same state."""

    def settle(_limit_s: float) -> None:
        os.sync()
        if data_file is not None:
            with data_file.path.open("rb", buffering=0) as file:
                while file.read(1 << 22):
                    pass

    return settle


def _linked_into(directory: Path, data_file: phases.DataFile) -> phases.DataFile:
    """The data file under the only directory the server may read; a hard link costs no disk."""
    place = directory / data_file.path.name
    try:
        os.link(data_file.path, place)
    except OSError:
        shutil.copyfile(data_file.path, place)  # another filesystem
    return phases.DataFile(place)


def _instance_record(
    given: TrialInput, version: str, effective: Mapping[str, str], facts: Mapping[str, Any]
) -> InstanceRecord:
    family = families.get(given.server.family)
    build = as_data(given.server)
    known_version = (
        given.server.version
        if isinstance(given.server, InstalledServer)
        else version.split("-", 1)[0]
    )
    return InstanceRecord(
        role="server",
        server=ServerRecord(
            name=given.server.name,
            family=given.server.family,
            version=known_version,
            version_reported=version,
            build=build,
            host_variables=tuple(sorted(family.host_variables)),
        ),
        configuration=given.options.configuration,
        options=tuple(
            OptionRecord(option.name, option.value, option.layer, option.optional)
            for option in given.options.applied
        )
        + tuple(
            OptionRecord(
                left.option.name,
                left.option.value,
                left.option.layer,
                left.option.optional,
                left_out=left.reason,
            )
            for left in given.options.left_out
        ),
        effective=effective,
        facts=facts,
    )


def _sizes(data_dir: Path, table: str) -> tuple[MeasurementRecord, ...]:
    """Bytes on disk after a clean stop, apparent and allocated: holes are not allocated."""
    apparent = allocated = table_apparent = table_allocated = 0
    for path in data_dir.rglob("*"):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            continue
        apparent += status.st_size
        allocated += status.st_blocks * 512
        if path.parent.name == DATABASE and path.name.split(".")[0] == table:
            table_apparent += status.st_size
            table_allocated += status.st_blocks * 512
    return (
        MeasurementRecord("data_dir_apparent_bytes", apparent),
        MeasurementRecord("data_dir_allocated_bytes", allocated),
        MeasurementRecord("table_apparent_bytes", table_apparent),
        MeasurementRecord("table_allocated_bytes", table_allocated),
    )
