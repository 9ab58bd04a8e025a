"""Define the JSON documents between a scheduler and the worker that executes its trials.

One line of JSON describes the trials of a block. It names servers and the digests of their builds,
never a path, so that the worker's host looks up what it has. The worker answers with one line for
each event, wait and result. Both sides check every line: ``read_block`` and ``read_message`` raise
InvalidDocument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Any, Literal

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
from millrace.store.checked import first
from millrace.store.records import AttemptResult
from millrace.trial.cpu_idle import CpuIdleSettings
from millrace.trial.data_file import generated_file
from millrace.trial.fault_injection import slowed_server
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec

LONGEST_LINE_BYTES = 256 << 20
"""The limit of a line: a result holds its logs, histograms and observations."""

_BLOCK_LIMITS = safe_json.Limits(size_bytes=64 << 20, values=1_000_000)


class InvalidDocument(ValueError):
    """A line that is no document of this version."""


class ServerDocument(ExactDocument):
    """A server by name; ``build`` is the digest of its files, None where it has none.

    ``slowdown`` is the level of an injected slowdown. An attached server has the address that the
    worker's host knows.
    """

    role: str
    name: str
    build: str | None
    options: FittedOptions
    slowdown: str | None


class TrialDocument(ExactDocument):
    """The spec of a trial; the worker generates the data file where a server reads it."""

    name: str
    servers: Annotated[tuple[ServerDocument, ...], Field(min_length=1)]
    definition: Mapping[str, Any]
    chosen: Mapping[str, Level]
    expected: DataChecksum | None
    cpu_idle: CpuIdleSettings | None
    collectors: tuple[str, ...]
    stops_cleanly: bool


class BlockDocument(ExactDocument):
    """Trials to execute in order, on the CPUs of a partition or on all."""

    version: Literal[1]
    cpu_partition: CpuPartition | None
    trials: tuple[TrialDocument, ...]


class EventMessage(ExactDocument):
    """An event of a trial."""

    kind: Literal["event"]
    trial: str
    event: Annotated[StepBegan | IntervalEnded, Field(discriminator="event")]


class WaitMessage(ExactDocument):
    """A trial has reached a point at which it waits for the other one of a concurrent pair."""

    kind: Literal["wait"]
    point: str


class ResultMessage(ExactDocument):
    """A trial has ended, and everything that it opened is closed."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    kind: Literal["result"]
    trial: str
    result: AttemptResult


class EndMessage(ExactDocument):
    """The worker ends early: interrupted, given an invalid document, or by a defect of millrace."""

    kind: Literal["interrupted", "invalid", "defect"]
    text: str


Message = EventMessage | WaitMessage | ResultMessage | EndMessage

_MESSAGE: TypeAdapter[Message] = TypeAdapter(
    Annotated[Message, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


def write_line(document: BlockDocument | Message) -> bytes:
    """Return a document as one line of JSON."""
    return document.model_dump_json(exclude_unset=True).encode() + b"\n"


def read_block(line: bytes) -> BlockDocument:
    """Return the block that a line describes. Raise InvalidDocument."""
    _require_whole(line, "block")
    try:
        safe_json.parse_object(line, _BLOCK_LIMITS)
        return BlockDocument.model_validate_json(line)
    except safe_json.JsonRefused as error:
        raise InvalidDocument(f"invalid block document: {error}") from error
    except ValidationError as error:
        raise InvalidDocument(f"invalid block document: {first(error)}") from error


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


def block_document(
    specs: Sequence[TrialSpec], cpu_partition: CpuPartition | None = None
) -> BlockDocument:
    """Return the document of a block's trials."""
    return BlockDocument(
        version=1,
        cpu_partition=cpu_partition,
        trials=tuple(
            TrialDocument(
                name=spec.name,
                servers=tuple(map(_server_document, spec.servers)),
                definition=spec.workload.definition,
                chosen=spec.workload.chosen,
                expected=spec.expected,
                cpu_idle=spec.cpu_idle,
                collectors=spec.collectors,
                stops_cleanly=spec.stops_cleanly,
            )
            for spec in specs
        ),
    )


def _server_document(spec: ServerSpec) -> ServerDocument:
    return ServerDocument(
        role=spec.role,
        name=spec.server.name,
        build=_build(spec.server),
        options=spec.options,
        slowdown=None if spec.slowdown is None else spec.slowdown.level,
    )


def resolve(
    trial: TrialDocument, cpu_partition: CpuPartition | None, opened: ExitStack
) -> TrialSpec:
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
        cpu_partition=cpu_partition,
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
    return ServerSpec(slowed_server(server, slowdown), document.options, slowdown, document.role)


def _build(server: Server) -> str | None:
    return None if isinstance(server, AttachedServer) else server.build_sha256
