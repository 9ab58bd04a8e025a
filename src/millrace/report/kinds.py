"""Kinds of files that commands write, and how to recognise a file of each kind.

A command replaces an existing file only where it recognises the file as one that it wrote. A kind
without a mark is never recognised: nothing in it tells millrace's file from the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.report.run.csv import COLUMNS

_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Kind:
    """A kind of file: its name in errors, and what the head of each such file matches."""

    name: str
    mark: re.Pattern[str] | None = None

    def is_kind_of(self, path: Path) -> bool:
        """Return True where the file at ``path`` is empty or has this kind's mark."""
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if not head or self.mark is None:
            return not head
        return self.mark.search(head.decode("utf-8", "replace")) is not None


PAGE = Kind("page", re.compile(r'<meta name="generator" content="millrace '))
FLAME_GRAPH = Kind("flame graph", re.compile(r'<svg [^>]*class="flame-graph file"'))
SPEEDSCOPE = Kind("speedscope profile", re.compile(r'"exporter": "millrace '))
FOLDED = Kind("list of call paths")
PAIRS = Kind("file of pairs")

_TEXT_REPORT = re.compile(r"^run \S+ · scale ", re.MULTILINE)
REPORTS: Mapping[str, Kind] = {
    "terminal": Kind("report", _TEXT_REPORT),
    "html": PAGE,
    "json": Kind("JSON report", re.compile(r'\A\{\s*"schema": "millrace\.report/')),
    "markdown": Kind("Markdown report", _TEXT_REPORT),
    "csv": Kind("CSV report", re.compile(re.escape(",".join(COLUMNS)))),
}
