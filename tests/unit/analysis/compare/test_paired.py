"""Test comparisons of values that took turns in blocks."""

import math

import numpy as np
import pytest

from millrace.analysis.compare.paired import PairedComparison, compare_paired
from tests.support.known import known


def judged(values: dict[str, dict[str, float]], base: str = "a") -> tuple[PairedComparison, ...]:
    return compare_paired(values, base=base, direction="higher", margin=0.02, alpha=0.05)


def treatments(*ratios: float, blocks: int = 8) -> dict[str, dict[str, float]]:
    source = np.random.default_rng(6)
    return {
        chr(ord("a") + number): {
            str(block): ratio * math.exp(source.normal(0, 0.01)) for block in range(blocks)
        }
        for number, ratio in enumerate(ratios)
    }


def test_each_is_compared_with_the_base_in_its_order() -> None:
    found = judged(treatments(1.0, 2.0, 0.5), base="b")
    assert [(each.base, each.candidate) for each in found] == [("b", "a"), ("b", "c")]
    ratios = [each.estimate.ratio for each in found if each.estimate]
    assert ratios == pytest.approx([0.5, 0.25], rel=0.03)
    assert {each.verdict for each in found} == {"regression"}


def test_blocks_are_paired_by_name_not_by_place() -> None:
    values = treatments(1.0, 1.0)
    values["b"] = {block: 3 * values["a"][block] for block in reversed(values["a"])}
    (found,) = judged(values)
    assert known(found.estimate).log_sd == pytest.approx(0.0, abs=1e-12)
    assert known(found.estimate).ratio == pytest.approx(3.0)


def test_more_comparisons_ask_for_more() -> None:
    values = treatments(1.0, 1.03)
    (alone,) = judged(values)
    (among, *_) = judged({**values, **{f"x{n}": values["a"] for n in range(9)}})
    assert known(among.adjusted_p) > 20 * known(alone.adjusted_p)
    assert among.estimate == alone.estimate


def test_one_without_an_interval_counts_for_nothing() -> None:
    values = treatments(1.0, 1.03)
    (alone,) = judged(values)
    few, other = judged({"a": values["a"], "few": {"0": 1.0, "1": 2.0}, "b": values["b"]})
    assert few.adjusted_p is None
    assert few.verdict == "inconclusive"
    assert (few.n_blocks, few.dropped) == (2, 6)
    assert other.adjusted_p == alone.adjusted_p
