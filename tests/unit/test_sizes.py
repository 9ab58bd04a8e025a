"""Test sizes in the syntax of options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import sizes


@given(st.integers(min_value=0, max_value=2**63))
def test_an_exact_spelling_reads_back(size_bytes: int) -> None:
    assert sizes.parse(sizes.exact(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("12G", 12 << 30), ("192k", 192 << 10), ("4096", 4096), (" 1MB ", 1 << 20)],
)
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    assert sizes.parse(text) == size_bytes


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "12X", "12 G", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        sizes.parse(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (5_842_640_750, "5.84 GB"), (200_000_000, "200 MB")],
)
def test_sizes_are_shown_with_three_digits(size_bytes: int, text: str) -> None:
    assert sizes.readable(size_bytes) == text
