"""``millrace analyze series``: where the level of a series moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from millrace.analysis.compare import ci_gate
from millrace.analysis.compare.ci_gate import Gated
from millrace.analysis.history.series_verdicts import AnalyzedSeries
from millrace.app.compare import ComparedSeries, Criteria, compare_series
from millrace.cli.analyze_options import judged_text, judging_options
from millrace.cli.console import out, print_json
from millrace.cli.fail_on import check
from millrace.model.run_spec import Direction
from millrace.report.common.formatting import counted
from millrace.report.common.terminal_table import show_table
from millrace.report.external import series as judged_points
from millrace.report.external.series import named
from millrace.stats.change_points import Sensitivity


@click.command("series")
@judging_options
@click.option(
    "--sensitivity",
    type=click.Choice(["review", "alert"]),
    default="review",
    show_default=True,
    help="Points for a list that is read once a week, or only those worth paging somebody.",
)
def command(
    *,
    file: Path,
    as_json: bool,
    margin: float,
    alpha: float,
    direction: Direction | None,
    sensitivity: Sensitivity,
    fail_on: tuple[Gated, ...],
) -> None:
    """Find where the level of a series moved.

    FILE (`-` is standard input) is CSV with the columns label (or time) and value, and series where
    it holds several; unit and direction may follow. Rows are in the order of time. Ratios are new
    level / old level. A change is a candidate until before and after are measured again,
    interleaved.
    """
    criteria = Criteria(margin, alpha, direction)
    found = compare_series(file, criteria, sensitivity=sensitivity)
    judged = [each.judged for each in found]
    if as_json:
        origins = [(each.better.basis, each.better.unit) for each in found]
        print_json(judged_points.as_json(judged, origins, margin=margin, alpha=alpha))
    else:
        _show(judged, _better_text(found), margin=margin, alpha=alpha)
    check(ci_gate.of_series(judged), fail_on)


def _show(judged: Sequence[AnalyzedSeries], better: str, *, margin: float, alpha: float) -> None:
    points = counted(sum(each.n_points for each in judged), "point")
    what = f"{points} in {counted(len(judged), 'series', 'series')}"
    out.print(judged_text(what, better, margin), markup=False)
    out.print()
    found = [point for each in judged for point in each.points]
    if found:
        show_table(judged_points.table(found, alpha), out)
        out.print()
    for line in judged_points.sentences(judged):
        out.print(line, markup=False)


def _better_text(found: Sequence[ComparedSeries]) -> str:
    """Return which values are better; where series differ, by the names of the series."""
    names: dict[str, list[str]] = {}
    for each in found:
        names.setdefault(str(each.better), []).append(each.series.name)
    if len(names) == 1:
        return next(iter(names))
    return ", ".join(f"{text} in {named(of)}" for text, of in names.items())
