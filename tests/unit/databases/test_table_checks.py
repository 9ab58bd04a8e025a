"""Test the text on differences between the tables of a snapshot and those of a restored server."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from millrace.databases.table_checks import KeptTable, Reading, difference, of_data

SAMPLES = Reading(("SELECT 1", "SELECT 2"), 1_360, 77)
ALL = Reading(("SELECT 3",), 2_000, 99)


def test_difference_names_expected_and_found_rows() -> None:
    assert difference(ALL, replace(ALL, checksum=98)) == "found the checksum 98, expected 99"
    assert difference(SAMPLES, replace(SAMPLES, rows=1_359, checksum=0)) == (
        "in 2 samples, found 1,359 rows, expected 1,360 and found the checksum 0, expected 77"
    )


@pytest.mark.parametrize("whole", [None, ALL])
def test_a_table_comes_back_from_plain_data(whole: Reading | None) -> None:
    table = KeptTable("d.t", SAMPLES, whole)
    assert of_data(asdict(table)) == table


@pytest.mark.parametrize(
    "damage",
    [{"whole": {}}, {"sample": None}, {"sample": {"statements": [], "rows": "x", "checksum": 0}}],
)
def test_other_data_is_no_table(damage: dict[str, object]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        of_data({**asdict(KeptTable("d.t", SAMPLES, ALL)), **damage})
