"""Define the JSON documents between a concurrent pair and the worker that executes one trial of it.

One line of JSON describes the trial. It names servers and the digests of their builds, and the
worker looks up what this host has. The worker answers with one line for each event and wait, and
for the result. Both sides check every line: ``read_trial`` and ``read_message`` raise
InvalidDocument.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from millrace import paths, safe_json
from millrace.collect.registry import COLLECTORS
from millrace.errors import PermanentHostError, UserError
from millrace.experiment.slowdown import slowdown_named
from millrace.host.cpuset import CpuPartition
from millrace.levels import Level
from millrace.loadgen.datasets import DataChecksum
from millrace.model.documents import ExactDocument
from millrace.model.events import IntervalEnded, StepBegan
from millrace.model.servers import AttachedServer, FittedOptions, Server
from millrace.servers import install
from millrace.servers.attached import parse_dsn, with_tls
from millrace.store.checked import first
from millrace.store.records import AttemptResult
from millrace.tls import Tls
from millrace.trial.cpu_idle import CpuIdleSettings
from millrace.trial.data_file import generated_file
from millrace.trial.fault_injection import slowed_server
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec

LONGEST_LINE_BYTES = 256 << 20
"""The limit of a line: a result holds its logs, histograms and observations."""

_TRIAL_LIMITS = safe_json.Limits(size_bytes=64 << 20, values=1_000_000)


class InvalidDocument(ValueError):
    """A line that is no document of a trial, or no message of a worker."""


class ServerDocument(ExactDocument):
    """A server by name; this host knows the address of an attached one."""

    role: str
    name: str
    build: str | None  # the digest of its files, if it has any
    options: FittedOptions
    slowdown: str | None  # the level of an injected one
    tls: Tls | None  # the experiment's, for an attached server


class TrialDocument(ExactDocument):
    """The spec of a trial; the worker generates the data file where a server reads it."""

    name: str
    cpu_partition: CpuPartition | None
    servers: Annotated[tuple[ServerDocument, ...], Field(min_length=1)]
    definition: Mapping[str, object]
    chosen: Mapping[str, Level]
    expected: DataChecksum | None
    cpu_idle: CpuIdleSettings | None
    collectors: tuple[str, ...]
    stops_cleanly: bool


class EventMessage(ExactDocument):
    """An event of the trial."""

    kind: Literal["event"]
    event: Annotated[StepBegan | IntervalEnded, Field(discriminator="event")]


class WaitMessage(ExactDocument):
    """The trial has reached a point at which it waits for the other one of a concurrent pair."""

    kind: Literal["wait"]
    point: str


class ResultMessage(ExactDocument):
    """The trial has ended, and everything that it opened is closed."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    kind: Literal["result"]
    result: AttemptResult


class EndMessage(ExactDocument):
    """The worker ends early: interrupted, given an invalid document, or by a defect of millrace."""

    kind: Literal["interrupted", "invalid", "defect"]
    text: str


Message = EventMessage | WaitMessage | ResultMessage | EndMessage

_MESSAGE: TypeAdapter[Message] = TypeAdapter(
    Annotated[Message, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


def write_line(document: TrialDocument | Message) -> bytes:
    """Return a document as one line of JSON."""
    return document.model_dump_json(exclude_unset=True).encode() + b"\n"


def read_trial(line: bytes) -> TrialDocument:
    """Return the trial that a line describes. Raise InvalidDocument."""
    _require_whole(line, "trial")
    try:
        safe_json.parse_object(line, _TRIAL_LIMITS)
        return TrialDocument.model_validate_json(line)
    except safe_json.JsonRefused as error:
        raise InvalidDocument(f"invalid trial document: {error}") from error
    except ValidationError as error:
        raise InvalidDocument(f"invalid trial document: {first(error)}") from error


def read_message(line: bytes) -> Message:
    """Return the message in a line. Raise InvalidDocument."""
    _require_whole(line, "message")
    try:
        return _MESSAGE.validate_json(line, strict=True)
    except ValidationError as error:
        raise InvalidDocument(f"invalid message of a worker: {first(error)}") from error


def _require_whole(line: bytes, name: str) -> None:
    if not line.endswith(b"\n"):
        raise InvalidDocument(f"truncated {name}: it ends after {len(line):,} bytes")


def trial_document(spec: TrialSpec) -> TrialDocument:
    """Return the document of a trial."""
    return TrialDocument(
        name=spec.name,
        cpu_partition=spec.cpu_partition,
        servers=tuple(map(_server_document, spec.servers)),
        definition=spec.workload.definition,
        chosen=spec.workload.chosen,
        expected=spec.expected,
        cpu_idle=spec.cpu_idle,
        collectors=spec.collectors,
        stops_cleanly=spec.stops_cleanly,
    )


def _server_document(spec: ServerSpec) -> ServerDocument:
    server = spec.server
    return ServerDocument(
        role=spec.role,
        name=server.name,
        build=_build(server),
        options=spec.options,
        slowdown=None if spec.slowdown is None else spec.slowdown.level,
        tls=parse_dsn(server).tls if isinstance(server, AttachedServer) else None,
    )


def resolve(trial: TrialDocument, opened: ExitStack) -> TrialSpec:
    """Return the spec of a trial on this host; its data file exists until the stack closes.

    Raise UserError for an invalid workload, an unknown collector or slowdown, and a server that
    this host does not have; PermanentHostError for another build of it; and HostError where the
    data file cannot be written.
    """
    workload = ResolvedWorkload(trial.definition, trial.chosen)
    _ = workload.checked
    if unknown := set(trial.collectors) - COLLECTORS.keys():
        raise UserError(
            f"there is no collector {', '.join(sorted(unknown))} here",
            hint=f"known: {', '.join(COLLECTORS)}",
        )
    spec = TrialSpec(
        name=trial.name,
        servers=tuple(map(_resolve_server, trial.servers)),
        workload=workload,
        expected=trial.expected,
        cpu_idle=trial.cpu_idle,
        collectors=trial.collectors,
        cpu_partition=trial.cpu_partition,
        stops_cleanly=trial.stops_cleanly,
    )
    if not workload.reads_a_file:
        return spec
    file = opened.enter_context(generated_file(workload, paths.work_dir()))
    return replace(spec, data_file=file)


def _resolve_server(document: ServerDocument) -> ServerSpec:
    server = install.find(document.name)
    if _build(server) != document.build:
        raise PermanentHostError(
            f"the build of {document.name} differs here: {_build(server)}, not {document.build}",
            hint="install the build that the run measures",
        )
    try:
        slowdown = None if document.slowdown is None else slowdown_named(document.slowdown)
    except ValueError as error:
        raise UserError(str(error)) from error
    if isinstance(server, AttachedServer) and document.tls is not None:
        server = with_tls(server, document.tls)
    return ServerSpec(slowed_server(server, slowdown), document.options, slowdown, document.role)


def _build(server: Server) -> str | None:
    return None if isinstance(server, AttachedServer) else server.build_sha256
