"""A calibration of a host as sentences, a table and JSON, and the line that reports quote."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from millrace.analysis.compare.calibration import (
    TABLE,
    Calibration,
    GroupCalibration,
    InjectedSlowdown,
    Noise,
)
from millrace.analysis.compare.model import ApplicableCalibration, RunAnalysis, Verdict
from millrace.analysis.compare.verdict import margin_text
from millrace.levels import Level
from millrace.model.measurements import Direction
from millrace.quantities import counted
from millrace.report.common.formatting import (
    MISSING,
    change_text,
    interval_text,
    known_text,
    percent_text,
    seconds_text,
)
from millrace.report.common.json_parts import From, JsonPart, TextOrNull, part
from millrace.report.common.tables import Column, Row, Table, plain_table, text_columns
from millrace.stats.ratio import RatioEstimate


def sentences(found: Calibration) -> Iterator[str]:
    """Yield the rate of false verdicts, their balance, and the fate of injected slowdowns."""
    asked, verdicts = found.target, len(found.verdicts)
    if limits := found.limits(found.false):
        yield (
            f"{verdicts_text(found.false, verdicts, limits)}; each on "
            f"{counted(asked.blocks, 'block')} at most, margin {margin_text(asked.margin)}"
        )
        if found.refused:
            first = next(each.refused for each in found.verdicts if each.refused)
            yield f"{found.refused} of {verdicts} refused, as a run would; the first: {first}"
    else:
        yield "no verdict yet: more blocks are needed"
    if limits := found.limits(found.excluding):
        low, high = map(percent_text, limits)
        yield (
            f"intervals that exclude no difference: {found.excluding} of {verdicts} "
            f"({low} to {high}; 5 % are claimed)"
        )
        above, below, p = found.signs
        lean = "balanced" if p >= 0.05 else "not balanced: something treats the two differently"
        yield f"signs: {above} above 1, {below} below (p = {p:.2g}): {lean}"
    for group in found.groups:
        for each in group.injected:
            yield injected_sentence(found, group, each)
    for group in found.groups:
        if group.failed:
            yield f"{counted(group.failed, 'trial')} of {group.label or 'the base'} failed"


def verdicts_text(false: int, verdicts: int, limits: tuple[float, float]) -> str:
    """Return text such as ``1 false verdict of 60 (0.04 to 8.9 %)``."""
    low, high = (f"{100 * each:.0f}" if each >= 0.1 else f"{100 * each:.2g}" for each in limits)
    return f"{counted(false, 'false verdict')} of {verdicts} ({low} to {high} %)"


def smallest_text(limits: tuple[float, float], blocks: int) -> str:
    """Return text such as ``smallest change 4.1 % in 10 blocks``, or the range over groups."""
    low, high = map(percent_text, limits)
    size = high if low == high else f"{low.removesuffix(' %')} to {high}"
    return f"smallest change {size} in {blocks} blocks"


def injected_sentence(
    found: Calibration, group: GroupCalibration, injected: InjectedSlowdown
) -> str:
    """Return a sentence on an injected slowdown: its size, the detectable size, and the result."""
    blocks = found.target.blocks
    where = f"{group.label}: " if group.label else ""
    seen = group.detectable.get(blocks)
    able = (
        "" if seen is None else f" (smallest change seen in {blocks} blocks: {percent_text(seen)})"
    )
    what = injected.level
    if injected.stopped is not None:
        what = f"a server stopped for {100 * injected.stopped:.2f} % of the time"
        # A server that is stopped for a share of the time, and never idle, is as much slower.
        slowdown = 1 / (1 - injected.stopped) - 1
        able += ", more than is injected" if seen is not None and slowdown < seen else ""
    return f"{where}injected {what}{able}: {_outcome(found, injected)}"


def _outcome(found: Calibration, injected: InjectedSlowdown) -> str:
    if not injected.verdicts:
        return f"not decided after {counted(len(injected.under_way), 'block')}"
    direction = found.metric.direction
    if len(injected.verdicts) > 1:
        seen = f"found in {injected.found(direction)} of {len(injected.verdicts)} verdicts"
        return f"{seen}; in all its blocks {_effect(injected.estimate)}"
    verdict = injected.verdicts[0]
    said = "found" if injected.found(direction) else "NOT found"
    return f"{said} in {counted(len(verdict.blocks), 'block')}, {_effect(verdict.estimate)}"


def _effect(estimate: RatioEstimate | None) -> str:
    if estimate is None:
        return MISSING
    return f"{change_text(estimate.ratio)} (ratio {interval_text(estimate.low, estimate.high)})"


def head_line(analysis: RunAnalysis) -> str | None:
    """Return the line on the host's calibration; None for a run to which none applies.

    Trials that filled a disk do not measure speed, so no calibration applies to them.
    """
    calibrations = analysis.calibrations
    if calibrations is None or any(each.full_disk for each in analysis.treatments):
        return None
    design, command = "", "`millrace calibrate FILE`"
    if analysis.run.design.slices:
        several = any(int(each.resolved.get("clients", 1)) > 1 for each in analysis.treatments)
        how = " --slowdown none" if several else ""  # ``cpu`` takes interleaved trials there
        design, command = " in slices", f"`millrace calibrate FILE{how}`"
    if not calibrations:
        how_far = f"{command} tells how far its verdicts can be trusted"
        return f"this host was not calibrated{design}; {how_far}"
    quoted = calibrations[0]
    other = "" if quoted.is_of_experiment else f" for {quoted.experiment}"
    text = f"calibrated{design} {age_text(quoted.age_s)} on this host{other}: {_figures(quoted)}"
    if quoted.stale:
        text += f"; stale ({'; '.join(quoted.stale)}): {command} calibrates anew"
    return text


def _figures(quoted: ApplicableCalibration) -> str:
    if quoted.low is None or quoted.high is None:
        said = "no verdict yet"
    else:
        said = verdicts_text(quoted.false, quoted.verdicts, (quoted.low, quoted.high))
        if quoted.refused:
            said += f", {quoted.refused} refused"
    if quoted.smallest is not None:
        said += f", {smallest_text(quoted.smallest, quoted.blocks)}"
    return said


def age_text(seconds: float) -> str:
    """Return text such as ``3 days ago``, ``2 hours ago``, ``just now``."""
    for unit, of_unit in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= of_unit:
            return f"{counted(int(seconds // of_unit), unit)} ago"
    return "just now"


def groups_table(found: Calibration) -> Table:
    """Return one row per group: verdicts, noise, and the smallest change by number of blocks."""
    columns = (
        *text_columns("group"), Column("verdicts"), Column("false"), Column("refused", drop=2),
        Column("noise of a block"), Column("95 % interval", drop=2), Column("CV of trials", drop=1),
        *(Column(f"{n} blocks", drop=3 if n > 10 else 0) for n in TABLE),
        Column("block, s", drop=1),
    )  # fmt: skip
    title = "noise, and the smallest change that is seen"
    return plain_table(title, columns, map(_row, found.groups))


def _row(group: GroupCalibration) -> Row:
    noise = group.noise
    return Row(
        (
            group.label or "the base",
            str(len(group.verdicts)),
            str(group.false),
            str(group.refused),
            known_text(noise, lambda each: _percent(each.log_sd)),
            known_text(noise, lambda each: f"{_percent(each.low)} to {_percent(each.high)}"),
            known_text(noise, lambda each: _percent(each.trials_cv)),
            *(_percent(group.detectable[n]) if group.detectable else MISSING for n in TABLE),
            known_text(group.block_s, seconds_text),
        )
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %" if fraction < 0.1 else percent_text(fraction)


VERSION = "millrace.calibration/2"


class VerdictPart(JsonPart):
    """A verdict on consecutive ``blocks``; ``refused`` says why it is none on speed."""

    WITHIN = "estimate"

    verdict: Verdict
    ratio: float
    low: float | None
    high: float | None
    blocks: tuple[int, ...]
    refused: TextOrNull


class InjectedPart(JsonPart):
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


class GroupPart(JsonPart):
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


class CalibrationDocument(JsonPart):
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
