"""Test the list of measurements, and their names."""

import pytest

from millrace import workloads
from millrace.model.measurements import (
    background_done,
    background_test,
    duration_s,
    error_code,
    errors_of,
    files_bytes,
    is_size,
    table_of_files,
)
from tests.support.listed_measurements import listed


@pytest.mark.parametrize("name", workloads.names())
def test_workloads_measure_what_is_in_the_list(name: str) -> None:
    for metric in workloads.parse_workload(workloads.load(name)).metrics.values():
        for used in (*metric.numerator, *metric.denominator):
            assert listed(used) is not None, used


def test_a_phase_and_an_error_code_stand_for_themselves() -> None:
    assert listed(duration_s("create_index")) == "{phase}_duration_s"
    assert listed(errors_of("1213")) == "errors_{code}"
    assert listed("temperature") is None


def test_an_error_code_is_read_from_its_name() -> None:
    assert error_code(errors_of("1062")) == "1062"
    assert error_code(errors_of("40P01")) == "40P01"
    assert error_code("errors") is None
    assert error_code("errors_many") is None


def test_the_test_of_background_clients_is_read_from_a_name() -> None:
    assert background_test(background_done("l.i1")) == "l.i1"
    assert background_test("inserts_background_late") is None


def test_files_of_a_table_have_its_name() -> None:
    apparent, allocated = files_bytes("sbtest1")
    for name in (apparent, allocated):
        assert listed(name) is not None
        assert table_of_files(name) == "sbtest1"
        assert is_size(name)
    assert table_of_files("table_allocated_bytes") is None
    assert is_size("table_allocated_bytes")
    assert not is_size("table_rows")
