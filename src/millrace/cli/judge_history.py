"""``millrace judge history``: where the level of a series moved."""

from __future__ import annotations

from pathlib import Path

import click

from millrace.analysis.judged_points import judge_history
from millrace.analysis.metrics import Direction
from millrace.cli.console import out, print_json
from millrace.cli.judge_options import judged_text, judging_options
from millrace.foreign import histories
from millrace.report import judged_points
from millrace.report.formatting import counted
from millrace.report.terminal_table import show_table
from millrace.stats.change_points import Sensitivity, follows_trend


@click.command("history")
@judging_options
@click.option(
    "--sensitivity",
    type=click.Choice(["list", "page"]),
    default="list",
    show_default=True,
    help="Points for a list that is read once a week, or only those worth paging somebody.",
)
def command(
    *,
    file: Path,
    as_json: bool,
    margin: float,
    alpha: float,
    direction: Direction,
    sensitivity: Sensitivity,
) -> None:
    """Find where the level of a series moved.

    FILE is CSV with the columns label (or time) and value, and series where it holds several; rows
    are in the order of time. Ratios are new level / old level. What is found is a candidate until
    before and after are measured again, in turns.
    """
    series = histories.read(file)
    found = [
        point
        for each in series
        for point in judge_history(
            each.name,
            each.labels,
            each.values,
            sensitivity=sensitivity,
            direction=direction,
            margin=margin,
            alpha=alpha,
        )
    ]
    if as_json:
        print_json(judged_points.as_json(found))
        return
    points = counted(sum(len(each.values) for each in series), "point")
    what = f"{points} in {counted(len(series), 'series', 'series')}"
    out.print(judged_text(what, direction, margin), markup=False)
    out.print()
    trends = [
        each.name
        for each in series
        if each.name not in {point.series for point in found}
        and follows_trend(each.values, sensitivity=sensitivity)
    ]
    if trends:
        out.print(judged_points.trends_sentence(trends), markup=False)
    if found:
        show_table(judged_points.table(found, alpha), out)
        out.print()
        out.print(judged_points.sentence(found))
    elif len(trends) < len(series):
        out.print("The level did not move.")
