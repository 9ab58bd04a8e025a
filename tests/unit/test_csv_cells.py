"""Text of CSV files that a spreadsheet would take for a formula."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.csv_cells import defused, plain
from millrace.foreign import pairs
from millrace.foreign.measure import Measure
from millrace.foreign.pairs import Value

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
]


@pytest.mark.parametrize("name", _NAMES)
def test_a_name_comes_back_from_the_form_that_no_spreadsheet_computes(name: str) -> None:
    cell = defused(name)
    assert isinstance(cell, str)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert plain(cell) == name


@pytest.mark.parametrize("name", _NAMES)
def test_a_file_of_pairs_holds_the_same_names(name: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    values = [Value(block, side, 1.5) for block in ("1", name) for side in (name, "other")]
    text = pairs.as_csv(values, Measure("s", "lower"), base=name)
    cells = [cell.strip('"') for line in text.split("\n") for cell in line.split(",")]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    file.write_bytes(text.encode())
    found, _ = pairs.read(file)
    same = name.replace("\r", r"\r")
    assert found == {same: {"1": 1.5, same: 1.5}, "other": {"1": 1.5, same: 1.5}}
