"""Test text of CSV files that a spreadsheet would take for a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from millrace.importers import paired
from millrace.importers.paired import Value
from millrace.importers.units import Measure
from millrace.shown_text import defused_cell, plain_cell

_NAMES = [
    '=HYPERLINK("http://evil","x")',
    "+1",
    "-1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "'=1",
    "''=1",
    "'quoted'",
    "10.11",
    " =1",
    "\u00a0\u3000\t@SUM(A1)",
    "\n+1",
    "' -1",
    "\uff1d1",
    "\uff0b1",
    " \uff0d1",
    "\uff20SUM(A1)",
]


def begins_a_formula(cell: str) -> bool:
    return cell.startswith(("\t", "\r", "\n")) or cell.strip()[:1] in set("=+-@＝＋－＠")


@pytest.mark.parametrize("name", _NAMES)
def test_a_name_comes_back_from_the_form_that_no_spreadsheet_computes(name: str) -> None:
    cell = defused_cell(name)
    assert isinstance(cell, str)
    assert not begins_a_formula(cell)
    assert plain_cell(cell) == name


@pytest.mark.parametrize("name", _NAMES)
def test_a_file_of_pairs_holds_the_same_names(name: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    values = [Value(block, side, 1.5) for block in ("1", name) for side in (name, "other")]
    text = paired.as_csv(values, Measure("s", "lower"), base=name)
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert not [cell for cell in cells if begins_a_formula(cell)]
    file.write_bytes(text.encode())
    found = paired.read(file).values
    same = name.replace("\r", r"\r").replace("\n", r"\n")
    assert found == {same: {"1": 1.5, same: 1.5}, "other": {"1": 1.5, same: 1.5}}
