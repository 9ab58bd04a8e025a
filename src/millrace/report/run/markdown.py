"""The report as Markdown, to paste into an issue or a merge request."""

from collections.abc import Iterable

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import DIFFERENCES, RunAnalysis
from millrace.analysis.compare.published import published_comparison
from millrace.report.calibration import head_line
from millrace.report.common.formatting import GLYPHS
from millrace.report.common.tables import Table
from millrace.report.common.wording import repeating
from millrace.report.run import dependence, notes, tables
from millrace.report.run.doubts import DOUBT, doubts
from millrace.report.run.drive_tables import driven_tables
from millrace.report.run.full_disk_tables import full_disk_tables
from millrace.report.run.matrix import Cell, Matrix, is_large, matrix
from millrace.report.run.sentences import answer, sentence
from millrace.report.run.undecided import next_step
from millrace.report.run.units import readable
from millrace.shown_text import shown_line

ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|"})


def as_markdown(analysis: RunAnalysis) -> str:
    """Return the report; of a large run, overviews come first, and what is pages long is folded."""
    analysis = readable(analysis)
    run, large = analysis.run, is_large(analysis)
    parts = [
        f"# {_plain(shown_line(run.title or run.name))}",
        _plain(notes.subtitle(analysis)),
        _plain(head_line(analysis) or ""),
        f"**{_plain(answer(analysis))}**",
        _list(f"{DOUBT}: {doubt}" for doubt in doubts(analysis)),
        _plain(next_step(analysis)),
    ]
    for found in full_disk_tables(analysis):
        parts += [f"## {_plain(found.title)}", _table(found)]
    for metric in analysis.metrics:
        if metric == analysis.time:
            continue
        time = analysis.time if metric == analysis.headline else None
        table = tables.results_table(analysis, metric, time)
        detail = [_table(table), _list(sentence(c, analysis) for c in analysis.comparisons(metric))]
        parts.append(f"## {_plain(table.title)}")
        if large:
            parts += [_matrix(matrix(analysis, metric)), _matrix_key(metric)]
        parts += _folded("Every treatment and verdict", detail) if large else detail
    depends = dependence.dependence_part(analysis)
    if depends is not None:
        parts += [f"## {dependence.TITLE}", _list(depends.sentences), _table(depends.table)]
    for driven in driven_tables(analysis):
        parts.append(f"## {_plain(driven.title)}")
        parts += _folded("Every treatment", [_table(driven)]) if large else [_table(driven)]
    study = published_comparison(analysis)
    table_of_study = tables.published_table(analysis, study, analysis.headline) if study else None
    if study is not None and table_of_study is not None:
        parts += [f"## Published beside measured: {_plain(study.title)}", _table(table_of_study)]
        parts.append(f"The study's host: {_plain(study.host)}.")
    for sizes in (tables.sizes_table(analysis), tables.table_files_table(analysis)):
        if sizes is not None:
            parts.append(f"## {_plain(sizes.title)}")
            parts += _folded("Every treatment", [_table(sizes)]) if large else [_table(sizes)]
    lines = [
        *notes.warnings(analysis),
        *notes.failure_lines(analysis),
        *notes.conditions(analysis),
        *notes.counted_lines(analysis),
    ]
    parts += ["## Notes", _list(lines)] if lines else []
    options = tables.options_table(analysis)
    if options is not None:
        parts += ["## Asked and effective", _table(options)]
    parts += ["## Servers", _table(tables.provenance_table(analysis))]
    if again := repeating(run.millrace_command):
        # In an indented block of code no sign means anything.
        parts += ["## To repeat", "\n".join(f"    {line}" for line in again.splitlines())]
    return "\n\n".join(part for part in parts if part) + "\n"


def _folded(summary: str, parts: list[str]) -> list[str]:
    """Fold the tables where the reader's Markdown can; the blank lines keep the tables tables."""
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]


def _matrix(overview: Matrix) -> str:
    heads = [
        f"{column.label} (base, {column.unit})" if column.unit else column.label
        for column in overview.columns
    ]
    lines = [_line(map(_plain, (overview.corner, *heads))), f"| --- |{' ---: |' * len(heads)}"]
    for section in overview.sections:
        lines += _heading_line(section.heading, len(heads))
        lines += [_line((_plain(row.label), *map(_cell, row.cells))) for row in section.rows]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _heading_line(heading: str, others: int) -> list[str]:
    return [f"| **{_plain(heading)}** |{' |' * others}"] if heading else []


def _cell(cell: Cell) -> str:
    if cell.verdict is None:
        return _plain(cell.text)
    text = f"{GLYPHS[cell.verdict]} {cell.text}"
    if cell.verdict in DIFFERENCES:
        text = f"{GLYPHS[cell.verdict]} **{cell.text}**"
    return f"{text}<br><sub>{cell.interval}</sub>" if cell.interval else text


def _matrix_key(metric: Metric) -> str:
    better = "above" if metric.direction == "higher" else "below"
    signs = ", ".join(f"{sign} {verdict}" for verdict, sign in GLYPHS.items())
    return f"Candidate / base with its interval, {better} 1 is better: {signs}."


def _plain(text: str) -> str:
    return " ".join(text.split()).translate(ESCAPED)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"* {_plain(line)}" for line in lines)


def _table(table: Table) -> str:
    rule = ("---:" if column.numeric else "---" for column in table.columns)
    lines = [_line(_plain(column.title) for column in table.columns), _line(rule)]
    for section in table.sections:
        lines += _heading_line(section.heading, len(table.columns) - 1)
        lines += [_line(map(_plain, row.cells)) for row in section.rows]
    return "\n".join(lines)
