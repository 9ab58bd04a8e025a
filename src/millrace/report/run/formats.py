"""Every format of the report, by name."""

import re
from collections.abc import Callable, Mapping

from millrace.analysis.compare.model import RunAnalysis
from millrace.output_files import PAGE, Kind
from millrace.report.run.csv import COLUMNS, as_csv
from millrace.report.run.html import as_html
from millrace.report.run.json import as_json
from millrace.report.run.markdown import as_markdown
from millrace.report.run.terminal import as_text

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
