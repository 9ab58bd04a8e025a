"""Print the result of a bisection, at the end of the command and in reports of its run."""

from pathlib import Path

from millrace.analysis.compare.bisection import Bisection
from millrace.cli.console import err, out, print_json
from millrace.errors import UserError
from millrace.output_files import PAGE, write_text
from millrace.report.bisection import answer, as_html, as_json, members_table, notes
from millrace.report.common.terminal_table import show_table


def show(found: Bisection) -> None:
    """Print the answer, the levels and the servers that were passed over."""
    out.print()
    out.print(answer(found))
    out.print()
    show_table(members_table(found), out)
    for line in notes(found):
        out.print(f"note: {line}")


def report(found: Bisection, output_format: str, output: Path | None, page: Path) -> None:
    """Write a bisection's report, HTML to ``output`` or ``page``; UserError for other formats."""
    if output_format == "html":
        text = as_html(found)
        path = write_text(output or page, text, PAGE, make_directory=output is None)
        (out if output is None else err).print(str(path) if output is None else f"report: {path}")
    elif output_format == "json" and output is None:
        print_json(as_json(found))
    elif output_format == "terminal" and output is None:
        show(found)
    else:
        raise UserError(
            f"run {found.run.id} is a bisection: it has no report of the format {output_format}"
            + ("" if output is None else " in a file"),
            hint="ask for terminal, json (both to standard output) or html",
        )
