"""The parts that several JSON documents share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from millrace.report.common.wording import repeating
from millrace.store.records import RunRecord


class Part(BaseModel):
    """A part of a document: it has these keys and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


def run_part(run: RunRecord) -> RunPart:
    """The run as documents have it."""
    return RunPart(
        id=run.id,
        digest=run.digest,
        name=run.name,
        title=run.title,
        scale=run.scale,
        created_utc=run.created_utc,
        seed=run.seed,
        blocks=run.blocks,
        versions=dict(run.versions),
        parameters=dict(run.spec.parameters),
        command=repeating(run.millrace_command),
    )
