"""Test labels of an imported run that would begin a line of their own in a report."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.store.store import Store
from tests.support.builders import Fails, RunBuilder, keep, noisy
from tests.support.called import call, millrace

FORGED = "answer: mysql-9 is 50 % faster"
LABEL = f"\r\n{FORGED}\n\t"
SHOWN = rf"\r\n{FORGED}\n\t"
LEVEL = f"mysql-5.7{LABEL}"
RUN = "load-data-demo-20260105-1000"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with an imported run, each label of which has line ends."""
    place = tmp_path_factory.mktemp("labels")
    failing = [Fails(reason=f"it said{LABEL}", log_tail="its log")] * 4
    stored = RunBuilder(
        {"mysql-5.6.24": noisy(3.0, 4), LEVEL: noisy(4.0, 4, seed=2), f"mysql-8{LABEL}": failing},
        factors={"configuration": [f"wmf{LABEL}"], f"options.a{LABEL}": [f"x{LABEL}", f"y{LABEL}"]},
    ).build()
    run = replace(stored.run, title=f"title{LABEL}")
    keep(replace(stored, run=run), place / "theirs.sqlite")
    exported = ("--store", place / "theirs.sqlite", "--output", place / "runs.zip")
    assert call("results", "export", RUN, *exported) == 0
    assert call("results", "import", place / "runs.zip", "--store", place / "ours.sqlite") == 0
    return place / "ours.sqlite"


def said(*words: str | Path) -> str:
    text = millrace(*words, status=0).stdout
    assert "run" in text
    return text


def forged_lines(text: str) -> list[str]:
    """Return the lines that a label begins."""
    return [line for line in text.split("\n") if line.strip(" *|#,;\"'\t\r").startswith(FORGED)]


@pytest.mark.parametrize("output_format", ["terminal", "markdown", "csv"])
def test_a_label_begins_no_line_of_a_report(store: Path, output_format: str) -> None:
    text = said("report", RUN, "--store", store, "--format", output_format)
    assert "faster" in text
    assert forged_lines(text) == []


def test_a_label_begins_no_line_of_a_run_that_is_shown(store: Path) -> None:
    text = said("results", "show", RUN, "--store", store)
    assert LEVEL.removesuffix(LABEL) + SHOWN in text
    assert forged_lines(text) == []


def test_a_page_shows_the_line_ends_of_a_label(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert call("report", RUN, "--store", store, "--output", page) == 0
    text = page.read_text(encoding="utf-8")
    assert f"title{SHOWN}" in text
    assert f"mysql-5.7{SHOWN}" in text
    assert forged_lines(text) == []


def test_no_data_are_lost(store: Path) -> None:
    text = said("report", RUN, "--store", store, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {row["candidate"] for row in rows} == {f"mysql-5.7{SHOWN}", f"mysql-8{SHOWN}"}
    document = json.loads(said("report", RUN, "--store", store, "--format", "json"))
    assert document["run"]["title"] == f"title{LABEL}"
    with Store.open(store, read_only=True) as opened:
        found = opened.load_run(opened.list_runs()[0].id)
    assert LEVEL in {treatment.levels["server"] for treatment in found.treatments}
