"""What a trial is given, what it finds, and the part that all kinds of servers share: measuring."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millrace.errors import TrialFailed
from millrace.load import client as load
from millrace.load.spec import RunSpec
from millrace.runner import phases
from millrace.runner.phases import DataFile, Work
from millrace.servers import families
from millrace.servers.model import FittedOptions, LeftOut, Option, Server, as_data
from millrace.store.records import (
    InstanceRecord,
    MeasurementRecord,
    OptionRecord,
    ServerRecord,
    StepRecord,
)

SETTLE_LIMIT_S = 600.0
ASK_LIMIT_S = 60.0
STOP_LIMIT_S = 600.0  # a clean stop writes every dirty page

Announce = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class TrialInput:
    """All that a trial needs: decided before it starts, the same for every trial of a treatment.

    ``name`` is the trial's id in the store, ``data_file`` None unless the server reads one.
    """

    name: str
    server: Server
    options: FittedOptions
    work: Work
    expected: load.DataChecksum
    data_file: DataFile | None


@dataclass
class Found:
    """What a trial has found so far; it is kept when a later step fails."""

    instances: list[InstanceRecord] = field(default_factory=list)
    measurements: list[MeasurementRecord] = field(default_factory=list)
    log_tail: Callable[[], str | None] = lambda: None
    log: Callable[[], bytes | None] = lambda: None


def settle(data_file: DataFile | None) -> None:
    """Write back what is dirty, and have a data file in the page cache, so that every trial starts
    from the same state."""
    os.sync()
    if data_file is not None:
        with data_file.path.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def measure(
    given: TrialInput,
    run_spec: RunSpec,
    found: Found,
    *,
    announce: Announce,
    watch: Callable[[], None],
    limit_s: float,
) -> Sequence[StepRecord]:
    """The workload's phases, watched once a second, verified, and turned into measurements.

    ``watch`` raises TrialFailed when the server itself knows why it is in trouble.
    """

    def tick(event: Mapping[str, Any]) -> None:
        if event.get("type") == "interval":
            announce({"event": "interval", **event})
        watch()

    try:
        result = load.run(run_spec, on_event=tick, limit_s=limit_s)
    except TrialFailed:
        _let_the_server_explain(watch)
        raise
    workload = given.work.workload
    phases.verify(workload, result, given.expected)
    found.measurements.extend(phases.measurements(workload, result, given.expected))
    return phases.step_records(result)


def _let_the_server_explain(watch: Callable[[], None]) -> None:
    """Raise what the server's own end or words say about a failure, which the client only sees as
    a lost connection; a process that was killed closes its sockets a moment before it is gone."""
    for _ in range(10):
        watch()
        time.sleep(0.1)


def instance_record(
    given: TrialInput, version: str, effective: Mapping[str, str], facts: Mapping[str, Any]
) -> InstanceRecord:
    """The server as this trial saw it; ``version`` and ``effective`` are its own words."""
    server, fitted = given.server, given.options
    # An attached server's build is not known, only what it says: 10.11.19-MariaDB-0+deb12u1.
    known = getattr(server, "version", None) or version.split("-", 1)[0]
    load_1min = os.getloadavg()[0]
    return InstanceRecord(
        role="server",
        server=ServerRecord(
            name=server.name,
            family=server.family,
            version=known,
            version_reported=version,
            build=as_data(server),
            host_variables=tuple(sorted(families.get(server.family).host_variables)),
        ),
        configuration=fitted.configuration,
        options=(
            *(_option_record(option) for option in fitted.applied),
            *(_option_record(left) for left in fitted.left_out),
        ),
        effective=effective,
        facts={**facts, "load_average_1min": load_1min},
    )


def _option_record(asked: Option | LeftOut) -> OptionRecord:
    option, reason = (asked.option, asked.reason) if isinstance(asked, LeftOut) else (asked, None)
    return OptionRecord(option.name, option.value, option.layer, option.optional, left_out=reason)
