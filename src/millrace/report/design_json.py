"""The parts of the JSON document about a run's design and its controls."""

from __future__ import annotations

from millrace.analysis.model import Control, Controls, RunAnalysis
from millrace.analysis.stopping import ending, outlook
from millrace.report.run.schema import ControlPart, ControlsPart, DesignPart, StandingPart


def design_part(analysis: RunAnalysis) -> DesignPart:
    """How the number of blocks was decided, and how each comparison stands."""
    design = analysis.run.design
    found = outlook(analysis, design)
    return DesignPart(
        kind=design.kind,
        blocks=design.blocks,
        max_time_s=design.max_time_s,
        side_by_side=design.side_by_side,
        ended=ending(analysis, found, design),
        intervals_for=analysis.holds_for,
        standings=[
            StandingPart(
                base_treatment=each.comparison.base_id,
                candidate_treatment=each.comparison.candidate_id,
                state=each.state,
                after=each.after,
                more_blocks=each.more_blocks,
            )
            for each in found.standings
        ],
    )


def controls_part(found: Controls | None) -> ControlsPart | None:
    """The base against itself; None where it never ran once more."""
    if found is None:
        return None
    estimate = found.estimate
    return ControlsPart(
        n_pairs=0 if estimate is None else estimate.n_pairs,
        ratio=None if estimate is None else estimate.ratio,
        low=None if estimate is None else estimate.low,
        high=None if estimate is None else estimate.high,
        excludes_1=found.excludes_1,
        groups=[_group(each) for each in found.groups],
    )


def _group(control: Control) -> ControlPart:
    estimate = control.estimate
    return ControlPart(
        base_treatment=control.base_id,
        held=dict(control.held),
        planned=control.planned,
        finished=control.finished,
        n_blocks=0 if estimate is None else estimate.n_pairs,
        ratio=None if estimate is None else estimate.ratio,
        low=None if estimate is None else estimate.low,
        high=None if estimate is None else estimate.high,
    )
