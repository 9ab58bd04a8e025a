"""Provide ``millrace results``: list, show, move and remove stored runs."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import starmap
from pathlib import Path

import click
from rich.markup import escape
from rich.text import Text

from millrace.app import results as use_case
from millrace.cli.console import LineTable, err, out, print_json, print_table
from millrace.cli.options import OUTPUT_FILE, store_option
from millrace.cli.progress import block_text
from millrace.errors import Interrupted, UserError
from millrace.levels import level_text
from millrace.quantities import counted
from millrace.report.common.formatting import grouped_text, latency_text
from millrace.report.common.wording import ORIGIN_TEXT
from millrace.shown_text import shown_line
from millrace.store.checked import to_plain
from millrace.store.records import StoredAttempt, StoredRun
from millrace.store.store import Store

_PERCENTS = (50, 95, 99)
_STYLES = {"finished": "green", "failed": "red", "interrupted": "yellow", "open": "cyan"}


@click.group()
def command() -> None:
    """List, show, move and remove stored runs.

    RUN is the beginning of a run's id, or `latest`: the newest run that was measured here.
    """


@command.command("list")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(store: Path, as_json: bool) -> None:
    """List the runs of the store, the newest first."""
    runs = use_case.list_runs(store)
    if as_json:
        print_json([asdict(run) for run in runs])
        return
    if not runs:
        err.print(f"{store}: has no runs yet")
        return
    table = LineTable(box=None, pad_edge=False, header_style="bold")
    for heading in ("id", "name", "scale", "created", "origin", "host"):
        table.add_column(heading, no_wrap=True)
    for heading in ("finished", "failed", "open"):
        table.add_column(heading, justify="right")
    for run in runs:
        texts = (run.id, run.name, run.scale, run.created_utc, run.origin, run.host_id)
        failed = Text(str(run.failed), style="red" if run.failed else "")
        table.add_row(*texts, str(run.finished), failed, str(run.open))
    print_table(table)


@command.command()
@click.argument("run")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print everything that is stored, as JSON.")
def show(run: str, store: Path, as_json: bool) -> None:
    """Show a run's trials with steps and measurements."""
    with use_case.opened_run(store, run) as (opened, stored):
        if as_json:
            print_json(to_plain(stored))
            return
        _print_header(stored)
        _print_trials(stored)
        _print_failures(stored, opened)


@command.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--output", required=True, type=OUTPUT_FILE, help="The file to write.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@store_option
def export(runs: tuple[str, ...], output: Path, force: bool, store: Path) -> None:
    """Export runs to one file, for `results import` on another machine."""
    ids = use_case.export_runs(store, runs, output, replace=force)
    err.print(f"wrote {counted(len(ids), 'run')} to {output}")


@command.command("import")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@store_option
def import_(files: tuple[Path, ...], store: Path) -> None:
    """Add the runs of exported files to the store.

    All runs of a file are added, or none. Runs that are already in the store do not change.
    """
    for file, imported in use_case.import_files(store, files):
        for run_id in imported.present:
            err.print(f"{file}: run {run_id} is in the store already: skipped")
        for run_id in imported.unrecorded:
            record = f"`millrace history record {run_id} --label LABEL` records it"
            err.print(f"{file}: run {run_id} was not added to histories; {record}")
        for run_id in imported.added:
            err.print(f"{file}: added run {run_id}")


@command.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@store_option
def remove(runs: tuple[str, ...], yes: bool, store: Path) -> None:
    """Remove runs with all their results and reports.

    Their points stay in histories.
    """

    def confirm(ids: Sequence[str]) -> None:
        for run_id in ids:
            err.print(run_id)
        if not yes:
            _confirm(f"Permanently remove {counted(len(ids), 'run')}?")

    removed = use_case.remove_runs(store, runs, confirm=confirm)
    err.print(f"removed {counted(len(removed.runs), 'run')}")
    for path in removed.reports:
        err.print(f"removed the report {path}")
    for run_id in removed.recorded:
        forget = f"`millrace history forget {run_id}` removes them"
        err.print(f"points of run {run_id} stay in histories; {forget}")


def _confirm(question: str) -> None:
    """Ask the user; raise Interrupted for a no, UserError if standard input ends."""
    try:
        wanted = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise UserError(
            "standard input ended before an answer; nothing was removed",
            hint="repeat the command with --yes",
        ) from None
    if not wanted:
        raise Interrupted("nothing was removed")


def _print_header(stored: StoredRun) -> None:
    run = stored.run
    out.print(Text(shown_line(run.title), style="bold"))
    facts = {
        "run": run.id,
        "scale": run.scale,
        "created": run.created_utc,
        "origin": ORIGIN_TEXT[run.origin],
        "host": run.host.id,
        "blocks": run.blocks or "",
        "seed": run.seed,
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
        "command": run.millrace_command,
    }
    for name, value in facts.items():
        if value != "":
            out.print(f"  {name:<9} {shown_line(str(value))}")


def _print_trials(stored: StoredRun) -> None:
    last = {attempt.trial_id: attempt for attempt in stored.attempts}
    labels = {
        each.id: " · ".join(starmap(level_text, each.levels.items())) for each in stored.treatments
    }
    for trial in stored.trials:
        attempt = last.get(trial.id)
        outcome = (attempt.outcome if attempt else None) or "open"
        out.print(
            f"\n[bold]{trial.position + 1}[/] "
            f"{block_text(trial)}  "
            f"{escape(labels[trial.treatment_id])}  [{_STYLES[outcome]}]{outcome}[/]"
            + (f"  (attempt {attempt.number})" if attempt and attempt.number > 1 else ""),
            markup=True,
        )
        if attempt is not None:
            _print_results(attempt)


def _print_results(attempt: StoredAttempt) -> None:
    if attempt.steps:
        steps = (f"{shown_line(step.name)} {step.duration_s:.3g} s" for step in attempt.steps)
        out.print(f"  steps: {', '.join(steps)}")
    values: defaultdict[str, list[str]] = defaultdict(list)
    for each in attempt.measurements:
        values[each.role].append(f"{shown_line(each.name)} {_number(each.value)}")
    for role, texts in values.items():
        out.print(f"  {shown_line(role)}: {', '.join(texts)}")
    found = {(each.of, each.name, each.time): each for each in use_case.latencies(attempt)}
    for record in attempt.histograms:
        if record.of == "transaction" and record.count:
            text = f"{record.count:,} in {record.sum_s / record.count * 1e3:.4g} ms on average"
            if latency := found.get((record.of, record.name, record.kind)):
                percentiles = zip(_PERCENTS, latency.percentiles_s(_PERCENTS), strict=True)
                parts = [f"p{percent} {latency_text(each)}" for percent, each in percentiles]
                text = ", ".join((text, *parts, f"max {latency_text(latency.maximum_s)}"))
            out.print(f"  {shown_line(record.name)}, {record.kind} time: {text}")


def _number(value: float) -> str:
    return grouped_text(value) if value.is_integer() else f"{value:.4g}"


def _print_failures(stored: StoredRun, store: Store) -> None:
    for attempt in stored.attempts:
        if attempt.outcome in ("finished", None):
            continue
        out.print(
            f"\n[bold {_STYLES[attempt.outcome]}]{attempt.outcome}[/]: trial "
            f"{escape(shown_line(attempt.trial_id))}, attempt {attempt.number}"
            + (f", step {escape(shown_line(attempt.failed_step))}" if attempt.failed_step else ""),
            markup=True,
        )
        out.print(f"  {shown_line(attempt.reason or 'no reason was given')}")
        for line in (attempt.log_tail or "").splitlines():
            out.print(f"  | {line}")
        for artefact in attempt.artefacts:
            path = store.artefacts.path(artefact.sha256)
            out.print(f"  {shown_line(artefact.kind)} of the {shown_line(artefact.role)}: {path}")
