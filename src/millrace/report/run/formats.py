"""Every format of the report, by name, and the comparisons as CSV."""

import csv
import io
import re
from collections.abc import Callable, Mapping

from millrace.analysis.compare.model import RunAnalysis, varied_factors
from millrace.output_files import PAGE, Kind
from millrace.report.run.causes import cause_text
from millrace.report.run.html import as_html
from millrace.report.run.json import as_json
from millrace.report.run.markdown import as_markdown
from millrace.report.run.terminal import as_text
from millrace.shown_text import defused_cell, shown_line

COLUMNS = (
    "run", "origin", "metric", "unit", "direction", "fixed_factors", "base", "candidate", "ratio",
    "low", "high", "confidence", "n_blocks", "verdict", "reason", "minimum_detectable",
    "blocks_wanted", "adjusted_p", "agreeing_blocks", "more_blocks", "first_cause", "base_value",
    "candidate_value",
)  # fmt: skip


def as_csv(analysis: RunAnalysis) -> str:
    """Return RFC 4180 with a header; an empty field is what JSON calls null.

    ``fixed_factors`` is ``factor=level`` of each held factor, joined by semicolons; those that vary
    follow in columns of their own, so that a spreadsheet can turn the rows into any table. Values
    are levels (``MetricSummary``), in ``unit``. Text stands on one line, and after an apostrophe
    where it begins as a formula does.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    varied = varied_factors(analysis)
    values = {
        (t.id, name): found.level for t in analysis.treatments for name, found in t.metrics.items()
    }
    writer.writerow(map(_cell, [*COLUMNS, *varied]))
    for metric in analysis.metrics:
        for comparison in analysis.comparisons(metric):
            estimate = comparison.estimate
            cells = [
                analysis.run.id,
                analysis.run.origin,
                *(metric.name, metric.unit, metric.direction),
                ";".join(f"{name}={level}" for name, level in comparison.fixed_factors.items()),
                comparison.base,
                comparison.candidate,
                *((estimate.ratio, estimate.low, estimate.high) if estimate else [None] * 3),
                analysis.confidence,
                comparison.n_blocks,
                comparison.verdict,
                comparison.reason,
                comparison.minimum_detectable,
                comparison.blocks_wanted,
                comparison.adjusted_p,
                comparison.agreeing_blocks,
                comparison.more_blocks,
                cause_text(comparison, analysis) or None,
                values.get((comparison.base_id, metric.name)),
                values.get((comparison.candidate_id, metric.name)),
                *(comparison.fixed_factors[name] for name in varied),
            ]
            writer.writerow(map(_cell, cells))
    return text.getvalue()


def _cell(value: object) -> object:
    """Return text on one line, for a reader that takes the file line by line."""
    return defused_cell(shown_line(value)) if isinstance(value, str) else value


FORMATS: Mapping[str, Callable[[RunAnalysis], str]] = {
    "terminal": as_text,
    "html": as_html,
    "json": as_json,
    "markdown": as_markdown,
    "csv": as_csv,
}


_TEXT_REPORT = re.compile(r"^run \S+ · scale ".encode(), re.MULTILINE)
REPORTS: Mapping[str, Kind] = {
    "terminal": Kind("report", _TEXT_REPORT),
    "html": PAGE,
    "json": Kind("JSON report", re.compile(rb'\A\{\s*"schema": "millrace\.report/')),
    "markdown": Kind("Markdown report", _TEXT_REPORT),
    "csv": Kind("CSV report", re.compile(re.escape(",".join(COLUMNS).encode()))),
}


def render(analysis: RunAnalysis, output_format: str) -> str:
    """Return the report in one of ``FORMATS``; raises KeyError for another name."""
    return FORMATS[output_format](analysis)
