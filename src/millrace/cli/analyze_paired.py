"""``millrace analyze paired``: compare treatments that were interleaved in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from millrace.analysis.compare import ci_gate
from millrace.analysis.compare.ci_gate import Gated
from millrace.analysis.compare.paired import PairedComparison
from millrace.app.compare import Criteria, compare_paired
from millrace.cli.analyze_options import judged_text, judging_options
from millrace.cli.console import out, print_json
from millrace.cli.fail_on import check
from millrace.model.run_spec import Direction
from millrace.report.common.terminal_table import STYLES, show_table
from millrace.report.external import paired as judged_pairs


@click.command("paired")
@judging_options
@click.option(
    "--base",
    metavar="TREATMENT",
    help="The base of the comparisons (default: the first treatment).",
)
def command(
    *,
    file: Path,
    as_json: bool,
    margin: float,
    alpha: float,
    direction: Direction | None,
    base: str | None,
    fail_on: tuple[Gated, ...],
) -> None:
    """Compare treatments that were interleaved in blocks.

    FILE (`-` is standard input) is CSV with the columns block, treatment and value, a row a trial:
    one value of each treatment in each block; columns unit and direction may follow. Ratios are
    candidate / base. The intervals hold however often you look, so you may add blocks until there
    is a verdict.
    """
    criteria = Criteria(margin, alpha, direction)
    compared = compare_paired(file, criteria, base=base)
    found, better = compared.comparisons, compared.better
    if as_json:
        document = judged_pairs.as_json(
            found,
            direction=better.direction,
            direction_from=better.basis,
            unit=better.unit,
            margin=margin,
            alpha=alpha,
        )
        print_json(document)
    else:
        _show(found, compared.base, str(better), margin=margin, alpha=alpha)
    check(ci_gate.of_pairs(found, alpha), fail_on)


def _show(
    found: Sequence[PairedComparison], base: str, better: str, *, margin: float, alpha: float
) -> None:
    out.print(judged_text(f"base {base}", better, margin), markup=False)
    out.print()
    show_table(judged_pairs.table(found, alpha), out)
    out.print()
    for each in found:
        text = Text(judged_pairs.sentence(each, margin))
        text.highlight_words([each.verdict], STYLES[each.verdict])
        out.print(text)
    if family := judged_pairs.family_sentence(found, alpha):
        out.print(family, markup=False)
