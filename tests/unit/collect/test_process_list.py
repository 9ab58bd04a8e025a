"""Test when the process list is read."""

from __future__ import annotations

from itertools import pairwise

from millrace.collect.process_list import MOST_LOOKS, gap_s


def test_looks_are_a_second_apart_at_first_and_then_ever_more() -> None:
    looks = [0.0]
    for _ in range(MOST_LOOKS):
        looks.append(looks[-1] + gap_s(looks[-1]))
    gaps = [later - earlier for earlier, later in pairwise(looks)]
    assert looks[1:5] == [1.0, 2.0, 3.0, 4.0]
    assert min(gaps) == 1.0
    assert gaps == sorted(gaps)
    assert 120 < looks[-1] < 180
