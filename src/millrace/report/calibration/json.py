"""A calibration as a JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from millrace.analysis.compare.calibration_model import (
    Calibration,
    GroupCalibration,
    SequentialVerdict,
)
from millrace.report.calibration.sentences import sentences

VERSION = "millrace.calibration/2"


def as_json(found: Calibration) -> dict[str, Any]:
    """Return the calibration as one document; shares, noise and changes are fractions."""
    limits, above_below = found.limits(found.false), found.signs
    excluding = found.limits(found.excluding)
    return {
        "schema": VERSION,
        "run": found.run.id,
        "host": found.run.host.id,
        "created_utc": found.run.created_utc,
        "ended_utc": found.ended_utc,
        "experiment": found.target.to_json(),
        "metric": found.metric.name,
        "direction": found.metric.direction,
        "verdicts": len(found.verdicts),
        "false_verdicts": found.false,
        "false_rate_low": None if limits is None else limits[0],
        "false_rate_high": None if limits is None else limits[1],
        "refused_verdicts": found.refused,
        "excluding": found.excluding,
        "excluding_rate_low": None if excluding is None else excluding[0],
        "excluding_rate_high": None if excluding is None else excluding[1],
        "above": above_below[0],
        "below": above_below[1],
        "signs_p": above_below[2],
        "groups": [_group_json(found, group) for group in found.groups],
        "sentences": list(sentences(found)),
    }


def _group_json(found: Calibration, group: GroupCalibration) -> dict[str, Any]:
    return {
        "fixed_factors": dict(group.fixed_factors),
        "label": group.label,
        "verdicts": [_verdict_json(each) for each in group.verdicts],
        "false_verdicts": group.false,
        "refused_verdicts": group.refused,
        "blocks_under_way": len(group.under_way),
        "noise": None if group.noise is None else asdict(group.noise),
        "minimum_detectable": {str(n): change for n, change in group.detectable.items()},
        "block_s": group.block_s,
        "failed": group.failed,
        "injected": [
            {
                "level": each.level,
                "stopped": each.stopped,
                "verdicts": [_verdict_json(verdict) for verdict in each.verdicts],
                "blocks_under_way": len(each.under_way),
                "found": each.found(found.metric.direction),
                "ratio": None if each.estimate is None else each.estimate.ratio,
                "low": None if each.estimate is None else each.estimate.low,
                "high": None if each.estimate is None else each.estimate.high,
            }
            for each in group.injected
        ],
    }


def _verdict_json(verdict: SequentialVerdict) -> dict[str, Any]:
    return {
        "verdict": verdict.verdict,
        "ratio": verdict.estimate.ratio,
        "low": verdict.estimate.low,
        "high": verdict.estimate.high,
        "blocks": list(verdict.blocks),
        "refused": verdict.refused or None,
    }
