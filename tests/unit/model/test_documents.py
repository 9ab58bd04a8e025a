"""Test the values that documents hold."""

import pytest

from millrace.model.documents import instant


@pytest.mark.parametrize(
    "text", ["2026-W40-1T00:00:00Z", "2026-01-01 00:00:00Z", "20260101T000000.000Z"]
)
def test_an_instant_in_a_form_that_does_not_sort_as_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an instant"):
        instant(text)
