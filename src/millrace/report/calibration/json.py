"""A calibration as a JSON document."""

from typing import Annotated, Any

from pydantic import Field

from millrace.analysis.compare.calibration import Calibration, Noise
from millrace.analysis.compare.model import Verdict
from millrace.levels import Level
from millrace.model.measurements import Direction
from millrace.report.calibration.sentences import sentences
from millrace.report.common.json_parts import From, Part, TextOrNull, part

VERSION = "millrace.calibration/2"


class VerdictPart(Part):
    """A verdict on consecutive ``blocks``; ``refused`` says why it is none on speed."""

    WITHIN = "estimate"

    verdict: Verdict
    ratio: float
    low: float | None
    high: float | None
    blocks: tuple[int, ...]
    refused: TextOrNull


class InjectedPart(Part):
    """An injected slowdown: its verdicts, how many of them found it, and the ratio over all."""

    WITHIN = "estimate"

    level: str
    stopped: float | None
    verdicts: list[VerdictPart]
    blocks_under_way: Annotated[int, From(lambda slowdown: len(slowdown.under_way))]
    found: int
    ratio: float | None
    low: float | None
    high: float | None


class GroupPart(Part):
    """A group: its A/A verdicts, its noise, and its injected slowdowns."""

    fixed_factors: dict[str, Level]
    label: str
    verdicts: list[VerdictPart]
    false_verdicts: Annotated[int, From("false")]
    refused_verdicts: Annotated[int, From("refused")]
    blocks_under_way: Annotated[int, From(lambda group: len(group.under_way))]
    noise: Noise | None
    minimum_detectable: Annotated[
        dict[str, float], From(lambda group: {str(n): of for n, of in group.detectable.items()})
    ]
    block_s: float | None
    failed: int
    injected: list[InjectedPart]


class CalibrationDocument(Part):
    """A calibration; shares, noise and changes are fractions."""

    document_schema: str = Field(alias="schema")
    run: Annotated[str, From("run.id")]
    host: Annotated[str, From("run.host.id")]
    created_utc: Annotated[str, From("run.created_utc")]
    ended_utc: str
    experiment: Annotated[dict[str, Any], From(lambda found: found.target.to_json())]
    metric: Annotated[str, From("metric.name")]
    direction: Annotated[Direction, From("metric.direction")]
    verdicts: Annotated[int, From(lambda found: len(found.verdicts))]
    false_verdicts: Annotated[int, From("false")]
    false_rate_low: float | None
    false_rate_high: float | None
    refused_verdicts: Annotated[int, From("refused")]
    excluding: int
    excluding_rate_low: float | None
    excluding_rate_high: float | None
    above: int
    below: int
    signs_p: float
    groups: list[GroupPart]
    sentences: Annotated[list[str], From(lambda found: list(sentences(found)))]


def as_json(found: Calibration) -> dict[str, Any]:
    """Return the calibration as one document."""
    false_rate = found.limits(found.false) or (None, None)
    excluding_rate = found.limits(found.excluding) or (None, None)
    above, below, signs_p = found.signs
    document = part(
        CalibrationDocument,
        found,
        schema=VERSION,
        false_rate_low=false_rate[0],
        false_rate_high=false_rate[1],
        excluding_rate_low=excluding_rate[0],
        excluding_rate_high=excluding_rate[1],
        above=above,
        below=below,
        signs_p=signs_p,
        groups=[
            part(
                GroupPart,
                group,
                injected=[
                    part(InjectedPart, each, found=each.found(found.metric.direction))
                    for each in group.injected
                ],
            )
            for group in found.groups
        ],
    )
    return document.model_dump(mode="json", by_alias=True)
