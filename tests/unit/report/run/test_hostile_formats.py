"""Test hostile names and commands in machine-readable formats."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.report.run import notes
from millrace.report.run.formats import render
from tests.support.builders import RunBuilder, noisy, study


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\u00a0=", "\uff1d"])
def test_no_text_of_csv_is_a_formula(sign: str) -> None:
    level = f"{sign}cmd"
    load_s = {"mysql-5.6.24": noisy(3, 3), "mysql-5.7.22": noisy(4, 3, seed=2)}
    run = RunBuilder(load_s, factors={"engine": [level, "InnoDB"]}).build()
    rows = list(csv.DictReader(io.StringIO(render(compare_run(run), "csv"), newline="")))
    assert {row["engine"] for row in rows} == {f"'{level}", "InnoDB"}
    assert all(float(row["ratio"]) > 0 for row in rows)


def test_a_command_of_several_lines_is_one_line_of_code_in_markdown() -> None:
    stored = study()
    command = "millrace run --new `x` | y\n# heading\n<script>alert(1)</script>"
    text = render(
        compare_run(replace(stored, run=replace(stored.run, millrace_command=command))), "markdown"
    )
    line = "millrace run --new '`x`' '|' y '#' heading '<script>alert(1)</script>'"
    assert f"\n    {line}\n" in text


def test_an_option_counts_once_however_many_treatments_ask_for_it() -> None:
    servers = ("mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12")
    load_s = {server: noisy(3, 3, seed=n) for n, server in enumerate(servers)}
    run = RunBuilder(load_s, factors={"configuration": ["wmf"]}).build()
    lines = notes.warnings(compare_run(run))
    three = ", ".join(servers)
    taken = f"1 requested option (open_files_limit on {three}) took another value"
    assert taken in lines
    assert f"1 option (temp_pool on {three}) left out, which a server cannot have" in lines
