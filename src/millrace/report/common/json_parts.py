"""The parts that several JSON documents share, and their building from records of the analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from millrace.report.common.wording import repeating
from millrace.shown_text import shown_json
from millrace.stats import RatioEstimate
from millrace.store.records import HostRecord, RunRecord


class Part(BaseModel):
    """A part of a document: it has these keys and no others.

    It is built from the record whose attributes have the names of its keys.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


P = TypeVar("P", bound=Part)


class RunPart(Part):
    """The run: what was carried out, where and with which versions."""

    id: str
    digest: str
    name: str
    title: str
    scale: str
    created_utc: str
    seed: int
    blocks: int
    versions: dict[str, str]
    parameters: dict[str, Any]
    command: str


class HostPart(Part):
    """Facts of the host when the run began, doctor's findings included."""

    id: str
    facts: dict[str, Any]


def part(kind: type[P], record: object, **others: object) -> P:
    """Return a part with the values of ``others``, and of all other keys those of ``record``."""
    names = {field.alias or name for name, field in kind.model_fields.items()} - others.keys()
    return kind.model_validate({name: getattr(record, name) for name in names} | others)


def run_part(run: RunRecord) -> RunPart:
    """Return the run as documents have it."""
    parameters = run.spec.parameters
    return part(RunPart, run, parameters=parameters, command=repeating(run.millrace_command))


def host_part(host: HostRecord) -> HostPart:
    """Return the host as documents have it."""
    return part(HostPart, host)


def interval(estimate: RatioEstimate | None) -> dict[str, float | None]:
    """Return the ``ratio`` of an estimate with ``low`` and ``high``; None without an estimate."""
    if estimate is None:
        return {"ratio": None, "low": None, "high": None}
    return {"ratio": estimate.ratio, "low": estimate.low, "high": estimate.high}


def json_schema(kind: type[Part]) -> Mapping[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document."""
    generated = kind.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}


def document_text(document: Part) -> str:
    """Return a document as indented JSON text, with a newline at its end."""
    return shown_json(document.model_dump_json(by_alias=True, indent=2)) + "\n"
