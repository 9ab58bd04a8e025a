"""The table of a calibration: a row a group."""

from __future__ import annotations

from millrace.analysis.compare.calibration_model import TABLE, Calibration, GroupCalibration
from millrace.report.common.formatting import (
    MISSING,
    percent_text,
    seconds_text,
)
from millrace.report.common.tables import Column, Row, Section, Table


def groups_table(found: Calibration) -> Table:
    """Return a row a group: verdicts, noise, and the smallest change by numbers of blocks."""
    columns = (
        Column("group", numeric=False),
        Column("verdicts"),
        Column("false"),
        Column("refused", drop=2),
        Column("noise of a block"),
        Column("95 % interval", drop=2),
        Column("CV of trials", drop=1),
        *(Column(f"{n} blocks", drop=3 if n > 10 else 0) for n in TABLE),
        Column("block, s", drop=1),
    )
    rows = tuple(_row(group) for group in found.groups)
    return Table("noise, and the smallest change that is seen", columns, (Section("", rows),))


def _row(group: GroupCalibration) -> Row:
    noise = group.noise
    return Row(
        (
            group.label or "the base",
            str(len(group.verdicts)),
            str(group.false),
            str(group.refused),
            MISSING if noise is None else _percent(noise.log_sd),
            MISSING if noise is None else f"{_percent(noise.low)} to {_percent(noise.high)}",
            MISSING if noise is None else _percent(noise.trials_cv),
            *(_percent(group.detectable[n]) if group.detectable else MISSING for n in TABLE),
            MISSING if group.block_s is None else seconds_text(group.block_s),
        )
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %" if fraction < 0.1 else percent_text(fraction)
