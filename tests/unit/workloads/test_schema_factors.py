import pytest

from millrace.workloads.schema_factors import cpu_numbers


def test_numbers_and_ranges() -> None:
    assert cpu_numbers("") is None
    assert cpu_numbers("3") == (3,)
    assert cpu_numbers("0-2,7,1") == (0, 1, 2, 7)
    assert cpu_numbers("4-4") == (4,)


@pytest.mark.parametrize("text", ["3-1", "0,3-1", "a", "-1", "1-", "1,,2", " 1", "0-99999999"])
def test_what_names_no_cpus_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not numbers of CPUs|ends before it begins"):
        cpu_numbers(text)
