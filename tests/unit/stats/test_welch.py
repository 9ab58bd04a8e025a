"""Test Welch's test on samples with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

from millrace.stats.mean import welch_p


def test_an_example_by_hand() -> None:
    # t = (2 - 5) / sqrt(1/3 + 4/3) = -2.3238 with 2.9412 degrees of freedom.
    assert welch_p([1, 2, 3], [3, 5, 7]) == pytest.approx(0.1045, abs=2e-4)


def test_samples_without_spread() -> None:
    assert welch_p([2.0, 2.0], [2.0, 2.0]) == 1
    assert welch_p([2.0, 2.0], [3.0, 3.0, 3.0]) == 0


def test_one_value_is_refused() -> None:
    with pytest.raises(ValueError, match="one value"):
        welch_p([1.0], [1.0, 2.0])


def test_equal_means_are_rejected_as_often_as_is_said() -> None:
    source = np.random.default_rng(3)
    rejected = sum(
        welch_p(list(source.normal(size=4)), list(source.normal(0, 3, size=6))) < 0.05
        for _ in range(1000)
    )
    assert 25 < rejected < 75
