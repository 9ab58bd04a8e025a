"""Provide ``millrace doctor``: show what makes results on this host less trustworthy."""

import click
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from millrace import paths
from millrace.app import doctor
from millrace.cli.console import out, print_json
from millrace.host import facts as host
from millrace.shown_text import shown_line

_NARROW = 90  # columns: in fewer, text does not fit to the right of the checks' names

_SIGNS = {
    "ok": "[green]ok     [/]",
    "warn": "[yellow]warn   [/]",
    "problem": "[bold red]problem[/]",
    "unknown": "[dim]unknown[/]",
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print facts and findings as JSON.")
def command(as_json: bool) -> None:
    """Show what makes results on this host less trustworthy, and how to fix it.

    Changes nothing. Every run records the same facts and findings with its results.
    """
    work_dir = paths.work_dir()
    facts = host.facts(work_dir)
    findings = doctor.examine(facts, work_dir)
    if as_json:
        print_json(
            {
                "host_id": host.host_id(facts),
                "facts": facts.to_json(),
                "findings": [finding.to_json() for finding in findings],
            }
        )
        return
    width = max(len(finding.check) for finding in findings)
    indent = 4 if out.width < _NARROW else width + 10
    for finding in findings:
        out.print(
            f"{_SIGNS[finding.status]} {finding.check:<{width}}  "
            f"{escape(shown_line(finding.observed))}",  # it may hold the name of any process
            markup=True,
        )
        if finding.hint is not None:
            why = Padding(Text(finding.why, style="dim"), (0, 0, 0, indent), expand=False)
            out.print(why, soft_wrap=False)
            # Never wrapped, so that the user can copy a command from it.
            out.print(f"{'':{indent}}hint: {finding.hint}")
