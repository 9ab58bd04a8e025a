"""The report as Markdown, to paste into an issue or a merge request."""

from __future__ import annotations

from collections.abc import Iterable

from millrace.analysis.model import RunAnalysis
from millrace.report import notes
from millrace.report.published import published_beside
from millrace.report.sentences import answer, sentence
from millrace.report.tables import (
    Table,
    options_table,
    provenance_table,
    published_table,
    results_table,
)

ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|"})


def as_markdown(analysis: RunAnalysis) -> str:
    """The answer, tables of every metric, verdicts, published figures, notes and provenance."""
    run = analysis.run
    parts = [
        f"# {_plain(run.title or run.name)}",
        _plain(notes.subtitle(analysis)),
        f"**{_plain(answer(analysis))}**",
    ]
    for metric in analysis.metrics:
        if metric == analysis.time:
            continue
        time = analysis.time if metric == analysis.headline else None
        table = results_table(analysis, metric, time)
        parts += [f"## {_plain(table.title)}", _table(table)]
        parts.append(_list(sentence(c, analysis) for c in analysis.comparisons(metric)))
    study = published_beside(analysis)
    table_of_study = published_table(analysis, study, analysis.headline) if study else None
    if study is not None and table_of_study is not None:
        parts += [f"## Published beside measured: {_plain(study.title)}", _table(table_of_study)]
        parts.append(f"The study's host: {_plain(study.host)}.")
    warnings = [*notes.warnings(analysis), *notes.failure_lines(analysis)]
    if warnings:
        parts += ["## Notes", _list(warnings)]
    options = options_table(analysis)
    if options is not None:
        parts += ["## Asked and effective", _table(options)]
    parts += ["## Servers", _table(provenance_table(analysis))]
    if run.millrace_command:
        parts += ["## To repeat", f"    {run.millrace_command}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(text: str) -> str:
    """Text with Markdown's own signs escaped, on one line."""
    return " ".join(text.split()).translate(ESCAPED)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"* {_plain(line)}" for line in lines)


def _table(table: Table) -> str:
    head = " | ".join(_plain(column.title) for column in table.columns)
    rule = " | ".join("---:" if column.numeric else "---" for column in table.columns)
    lines = [f"| {head} |", f"| {rule} |"]
    for section in table.sections:
        if section.heading:
            lines.append(f"| **{_plain(section.heading)}** |" + " |" * (len(table.columns) - 1))
        lines += [f"| {' | '.join(_plain(cell) for cell in row.cells)} |" for row in section.rows]
    return "\n".join(lines)
