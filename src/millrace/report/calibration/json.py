"""A calibration as a JSON document."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from millrace.analysis.compare.calibration_model import (
    Calibration,
    GroupCalibration,
    InjectedSlowdown,
    Noise,
    SequentialVerdict,
)
from millrace.analysis.compare.model import Verdict
from millrace.levels import Level
from millrace.model.run_spec import Direction
from millrace.report.calibration.sentences import sentences
from millrace.report.common.json_parts import Part, interval, part

VERSION = "millrace.calibration/2"


class VerdictPart(Part):
    """A verdict on consecutive ``blocks``; ``refused`` says why it is none on speed."""

    verdict: Verdict
    ratio: float
    low: float | None
    high: float | None
    blocks: tuple[int, ...]
    refused: str | None


class InjectedPart(Part):
    """An injected slowdown: its verdicts, how many of them found it, and the ratio over all."""

    level: str
    stopped: float | None
    verdicts: list[VerdictPart]
    blocks_under_way: int
    found: int
    ratio: float | None
    low: float | None
    high: float | None


class GroupPart(Part):
    """A group: its A/A verdicts, its noise, and its injected slowdowns."""

    fixed_factors: dict[str, Level]
    label: str
    verdicts: list[VerdictPart]
    false_verdicts: int
    refused_verdicts: int
    blocks_under_way: int
    noise: Noise | None
    minimum_detectable: dict[str, float]
    block_s: float | None
    failed: int
    injected: list[InjectedPart]


class CalibrationDocument(Part):
    """A calibration; shares, noise and changes are fractions."""

    document_schema: str = Field(alias="schema")
    run: str
    host: str
    created_utc: str
    ended_utc: str
    experiment: dict[str, Any]
    metric: str
    direction: Direction
    verdicts: int
    false_verdicts: int
    false_rate_low: float | None
    false_rate_high: float | None
    refused_verdicts: int
    excluding: int
    excluding_rate_low: float | None
    excluding_rate_high: float | None
    above: int
    below: int
    signs_p: float
    groups: list[GroupPart]
    sentences: list[str]


def as_json(found: Calibration) -> dict[str, Any]:
    """Return the calibration as one document."""
    false_rate = found.limits(found.false) or (None, None)
    excluding_rate = found.limits(found.excluding) or (None, None)
    above, below, signs_p = found.signs
    document = part(
        CalibrationDocument,
        found,
        schema=VERSION,
        run=found.run.id,
        host=found.run.host.id,
        created_utc=found.run.created_utc,
        experiment=found.target.to_json(),
        metric=found.metric.name,
        direction=found.metric.direction,
        verdicts=len(found.verdicts),
        false_verdicts=found.false,
        false_rate_low=false_rate[0],
        false_rate_high=false_rate[1],
        refused_verdicts=found.refused,
        excluding_rate_low=excluding_rate[0],
        excluding_rate_high=excluding_rate[1],
        above=above,
        below=below,
        signs_p=signs_p,
        groups=[_group(found, group) for group in found.groups],
        sentences=list(sentences(found)),
    )
    return document.model_dump(mode="json", by_alias=True)


def _group(found: Calibration, group: GroupCalibration) -> GroupPart:
    return part(
        GroupPart,
        group,
        verdicts=[_verdict(each) for each in group.verdicts],
        false_verdicts=group.false,
        refused_verdicts=group.refused,
        blocks_under_way=len(group.under_way),
        minimum_detectable={str(n): change for n, change in group.detectable.items()},
        injected=[_injected(each, found.metric.direction) for each in group.injected],
    )


def _injected(slowdown: InjectedSlowdown, direction: Direction) -> InjectedPart:
    return part(
        InjectedPart,
        slowdown,
        verdicts=[_verdict(verdict) for verdict in slowdown.verdicts],
        blocks_under_way=len(slowdown.under_way),
        found=slowdown.found(direction),
        **interval(slowdown.estimate),
    )


def _verdict(verdict: SequentialVerdict) -> VerdictPart:
    return part(VerdictPart, verdict, **interval(verdict.estimate), refused=verdict.refused or None)
