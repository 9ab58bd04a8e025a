from dataclasses import replace

from millrace.databases.table_checks import Reading, difference

SAMPLES = Reading(("SELECT 1", "SELECT 2"), 1_360, 77)
ALL = Reading(("SELECT 3",), 2_000, 99)


def test_difference_names_expected_and_found_rows() -> None:
    assert difference(ALL, replace(ALL, checksum=98)) == "found the checksum 98, expected 99"
    assert difference(SAMPLES, replace(SAMPLES, rows=1_359, checksum=0)) == (
        "in 2 samples, found 1,359 rows, expected 1,360 and found the checksum 0, expected 77"
    )
