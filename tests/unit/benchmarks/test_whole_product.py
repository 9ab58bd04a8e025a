"""Test the parts of `benchmarks/whole_product` that need no server."""

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from benchmarks.whole_product import CHANCE, CLAIMED, EXPERIMENT, FULL, QUICK, allowed, share


@given(st.integers(0, 100), st.integers(1, 10))
def test_parts_are_even_and_nothing_is_lost(total: int, n_parts: int) -> None:
    parts = [share(total, n_parts, number) for number in range(n_parts)]
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1


@given(st.integers(1, 500))
def test_more_than_are_allowed_are_seen_by_chance_in_one_of_twenty(verdicts: int) -> None:
    most = allowed(verdicts)
    assert binom.sf(most, verdicts, CLAIMED) <= CHANCE
    assert most == 0 or binom.sf(most - 1, verdicts, CLAIMED) > CHANCE


def test_of_60_verdicts_six_are_allowed() -> None:
    assert allowed(60) == 6
    assert allowed(0) == 0


def test_what_is_promised_is_measured() -> None:
    assert (FULL.verdicts, FULL.injected, FULL.blocks) == (60, 20, 16)
    assert FULL.goals == {1: 13, 2: 18}
    for size in (FULL, QUICK):
        text = EXPERIMENT.format(
            server="mysql-8.0.33",
            tests='"scan"',
            blocks=size.blocks,
            time_s=size.time_s,
            warmup_s=size.warmup_s,
        )
        assert f"blocks = {size.blocks}\n" in text
