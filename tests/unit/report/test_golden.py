"""The words of each report, held in one golden file a subject and format.

Other tests assert fields; sentences are read here, as a whole. After a change of words:

    MILLRACE_RENEW_GOLDEN=1 python -m pytest tests/unit/report/test_golden.py

writes the files anew; `git diff tests/unit/report/golden` then shows what readers will see.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import __version__
from millrace.analysis.certainty import Certainty
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.conditions import DisturbedBlocks
from millrace.analysis.compare.model import FirstCause
from millrace.analysis.explain.explanation import Explanation
from millrace.report.explanation.html import as_html as explanation_html
from millrace.report.explanation.json import as_json as explanation_json
from millrace.report.history import as_html as history_html
from millrace.report.history import as_json as history_json
from millrace.report.run.formats import FORMATS, render
from tests.support.builders import RunBuilder, study
from tests.support.explained import explained_study, explained_text
from tests.support.history_points import STATES
from tests.support.reports import one_line
from tests.unit.report.test_history import CHANGES, grouped, shown

GOLDEN = Path(__file__).parent / "golden"
RENEW = "MILLRACE_RENEW_GOLDEN"
_SUFFIXES = {
    "terminal": "txt",
    "html": "html.txt",
    "json": "json.txt",
    "markdown": "md",
    "csv": "csv",
}
_DIGITS = 6  # of a float: further digits may differ between platforms


def run_report(output_format: str) -> Callable[[], str]:
    return lambda: render(compare_run(study()), output_format)


def counted_study() -> Explanation:
    return explained_study(counted=True)


def doubtful_run() -> str:
    """Return a report with a decided comparison and two that are not, in a disturbed run."""
    times = {
        "mysql-5.6.24": (4.0, 4.1, 3.9, 4.0),
        "mysql-5.7.22": (8.0, 8.1, 7.7, 8.0),
        "mysql-8.0.33": (8.0, 4.3, 4.9, 5.5),
        "mariadb-10.11.19": (4.2, 3.9, 3.9, 4.1),
    }
    found = compare_run(RunBuilder(times).build())
    settings = {"log_bin": ("OFF", "ON")}
    causes = {
        (each.base_id, each.candidate_id): FirstCause(
            "binary log", settings, Certainty.POSSIBLE if each.undecided else Certainty.LIKELY
        )
        for each in found.comparisons()[:2]
    }
    others = ("other processes used 35.1% of the CPU time, mysqld (pid 8956) the most",)
    disturbed = DisturbedBlocks(2, 4, others)
    return render(replace(found, causes=causes, disturbed=disturbed), "terminal")


def history_page() -> str:
    series = [shown(*CHANGES)]
    return history_html(series, grouped(series))


def history_document() -> str:
    series = [shown(*CHANGES)]
    return history_json(series, grouped(series), STATES)


REPORTS: Mapping[str, Callable[[], str]] = {
    **{f"run.{_SUFFIXES[each]}": run_report(each) for each in FORMATS},
    "doubtful-run.txt": doubtful_run,
    "explanation.txt": lambda: explained_text([counted_study()]),
    "explanation.html.txt": lambda: explanation_html(
        [explained_study(counted=True)], explained_study().run
    ),
    "explanation.json.txt": lambda: explanation_json(
        [explained_study(counted=True)], explained_study().run
    ),
    "history.html.txt": history_page,
    "history.json.txt": history_document,
}


@pytest.mark.parametrize("name", REPORTS)
def test_reports_equal_their_golden_files(name: str) -> None:
    text = REPORTS[name]().replace(__version__, "VERSION")
    if name.endswith(".html.txt"):
        text = read_by_people(text)
    elif name.endswith(".json.txt"):
        text = "\n".join(sentences_of(json.loads(text)))
    else:
        text = re.sub(r"\d+\.\d{7,}", lambda found: f"{float(found[0]):.{_DIGITS}g}", text)
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    path = GOLDEN / name
    if os.environ.get(RENEW):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text("utf-8"), f"if the new words are right: set {RENEW}=1 and rerun"


def read_by_people(page: str) -> str:
    """Return the text of a page, a line for each element, without styles, scripts and marks."""
    page = re.sub(r"<(style|script|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r"</?(span|b|code|i|a|wbr|em|strong|small|sup)\b[^>]*>", "", page)
    lines = (one_line(line) for line in re.sub(r"<[^>]+>", "\n", page).splitlines())
    return "\n".join(filter(None, lines))


def sentences_of(value: Any, path: str = "") -> Iterator[str]:
    """Yield the sentences of a document, each after the path of its key.

    Other tests read the figures."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from sentences_of(each, f"{path}/{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from sentences_of(each, f"{path}/{number}")
    elif isinstance(value, str) and " " in value:
        yield f"{path}: {value}"
