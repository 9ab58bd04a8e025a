"""Test verdicts cut from a stream of blocks: their error rate, and how it limits claims."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.compare.calibration import (
    Calibration,
    Pair,
    calibration,
    detectable,
    noise_of,
    sequential_verdicts,
)
from millrace.analysis.compare.comparability import Comparability
from millrace.analysis.compare.model import DIFFERENCES
from millrace.model.run_spec import FEWEST_BLOCKS, Calibrates
from millrace.report.calibration import age_text, as_json, sentences, smallest_text, verdicts_text
from millrace.stats.ratio import paired_ratio
from millrace.stats.sequential import FIRST_LOOK
from tests.support.known import known
from tests.support.query_runs import Levels, QueryRun, Values, nothing_else
from tests.support.seconds import Series, events

MARGIN = 0.02


def stream(n_blocks: int, *, sd: float = 0.01, change: float = 0.0, seed: int = 1) -> list[Pair]:
    source = random.Random(seed)
    return [
        Pair(n, base, base * math.exp(source.gauss(math.log1p(change), sd)))
        for n in range(n_blocks)
        for base in (100 * math.exp(source.gauss(0, 0.05)),)
    ]


@given(st.integers(0, 60), st.integers(3, 12), st.integers(0, 5))
def test_every_block_is_in_one_verdict_and_none_is_lost(n: int, most: int, seed: int) -> None:
    pairs = stream(n, seed=seed)
    verdicts, under_way = sequential_verdicts(pairs, direction="higher", margin=MARGIN, most=most)
    blocks = [block for each in verdicts for block in each.blocks]
    assert blocks + [each.block for each in under_way] == list(range(n))
    for each in verdicts:
        assert FEWEST_BLOCKS <= len(each.blocks) <= most
        assert each.verdict != "inconclusive" or len(each.blocks) == most
    assert len(under_way) < most


def test_a_verdict_ends_at_the_first_look_that_decides() -> None:
    pairs = stream(40, sd=0.002, change=-0.10)
    verdicts, _ = sequential_verdicts(pairs, direction="higher", margin=MARGIN, most=10)
    assert all(FEWEST_BLOCKS <= len(each.blocks) <= FIRST_LOOK for each in verdicts)
    assert {each.verdict for each in verdicts} == {"regression"}
    assert all(each.excludes_1 for each in verdicts)
    for each in verdicts:
        before = [pairs[block] for block in each.blocks[:-1]]
        undecided, rest = sequential_verdicts(before, direction="higher", margin=MARGIN, most=10)
        assert (undecided, rest) == ((), tuple(before))


def test_less_is_better_when_the_metrics_direction_is_lower() -> None:
    pairs = stream(10, sd=0.002, change=-0.10)
    verdicts, _ = sequential_verdicts(pairs, direction="lower", margin=MARGIN, most=10)
    assert {each.verdict for each in verdicts} == {"improvement"}


def test_a_budget_that_decides_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="3 blocks"):
        sequential_verdicts(stream(9), direction="higher", margin=MARGIN, most=2)


def test_false_verdicts_are_as_rare_as_claimed() -> None:
    """Of 200 verdicts at 5 % each, 18 or more would be false in 1 of 80 calibrations."""
    pairs = stream(200 * 16, sd=0.03)
    verdicts, _ = sequential_verdicts(pairs, direction="higher", margin=0.001, most=16)
    assert len(verdicts) >= 200
    excluding = sum(each.excludes_1 for each in verdicts)
    assert sum(each.verdict in DIFFERENCES for each in verdicts) <= excluding < 18
    above = sum(each.estimate.ratio > 1 for each in verdicts)
    assert 72 < above < 128  # four standard deviations from a half


def test_peeking_with_a_fixed_interval_would_be_seen() -> None:
    """Look at the same stream with an interval that holds for one look alone."""
    pairs = stream(400 * 16, sd=0.03)
    wrong = 0
    for start in range(0, len(pairs), 16):
        for n in range(FIRST_LOOK, 17):
            part = pairs[start : start + n]
            found = paired_ratio([p.base for p in part], [p.other for p in part])
            if not known(found.low) <= 1 <= known(found.high):
                wrong += 1
                break
    assert wrong >= 30


@pytest.mark.parametrize("times", [1.0, 2.0])
def test_detectable_change_is_found_as_often_as_claimed(times: float) -> None:
    sd, most = 0.02, 16
    change = times * detectable(sd, [most])[most]
    pairs = stream(100 * most, sd=sd, change=1 / (1 + change) - 1)
    verdicts, _ = sequential_verdicts(pairs, direction="higher", margin=0.001, most=most)
    seen = sum(each.excludes_1 and each.estimate.ratio < 1 for each in verdicts)
    assert seen / len(verdicts) > (0.7 if times == 1 else 0.97)


def test_noise_is_that_of_a_block_and_of_a_trial() -> None:
    noise = known(noise_of(stream(200, sd=0.02)))
    assert noise.low < 0.02 < noise.high
    assert noise.log_sd == pytest.approx(0.02, rel=0.15)
    assert noise.trials_cv == pytest.approx(0.05, rel=0.25)  # of a disturbance of whole blocks
    assert noise_of(stream(2)) is None


@given(st.floats(0.001, 0.2))
def test_more_blocks_see_less(log_sd: float) -> None:
    seen = detectable(log_sd, [5, 10, 20, 40])
    assert [*seen] == [5, 10, 20, 40]
    assert sorted(seen.values(), reverse=True) == [*seen.values()]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ((0.00042, 0.0894), "1 false verdict of 60 (0.042 to 8.9 %)"),
        ((0.0, 1.0), "1 false verdict of 60 (0 to 100 %)"),
        ((0.0123, 0.168), "1 false verdict of 60 (1.2 to 17 %)"),
    ],
)
def test_rates_are_rounded_for_reading(limits: tuple[float, float], text: str) -> None:
    assert verdicts_text(1, 60, limits) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (59, "just now"), (60, "1 minute ago"), (7200, "2 hours ago"),
     (3 * 86400 + 5, "3 days ago")],
)  # fmt: skip
def test_ages_are_in_their_largest_unit(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_smallest_change_has_a_range_when_groups_differ_in_noise() -> None:
    assert smallest_text((0.041, 0.041), 10) == "smallest change 4.1 % in 10 blocks"
    assert smallest_text((0.019, 0.041), 10) == "smallest change 1.9 to 4.1 % in 10 blocks"


def test_a_drift_that_blocks_cancel_makes_no_verdict_false() -> None:
    """On a host that slows down by a half, all A first and all A' then would differ."""
    drifting = [
        Pair(each.block, each.base * drift, each.other * drift)
        for each in stream(160, sd=0.01)
        for drift in (math.exp(-each.block / 230),)
    ]
    verdicts, _ = sequential_verdicts(drifting, direction="higher", margin=MARGIN, most=16)
    assert sum(each.verdict in DIFFERENCES for each in verdicts) <= 1
    noise = known(noise_of(drifting))
    assert noise.log_sd < 0.012 < 0.15 < noise.trials_cv
    apart = [
        Pair(n, a.base, b.other)
        for n, (a, b) in enumerate(zip(drifting[:80], drifting[80:], strict=True))
    ]
    wrong, _ = sequential_verdicts(apart, direction="higher", margin=MARGIN, most=16)
    assert sum(each.verdict in DIFFERENCES for each in wrong) > len(wrong) / 2


def test_what_is_refused_is_neither_false_nor_found_and_ends_when_it_is_for_good() -> None:
    def judged(blocks: Sequence[int]) -> Comparability:
        return Comparability("unequal work", "", "unequal" if len(blocks) == 7 else None)

    pairs = stream(40, sd=0.002, change=-0.10)
    verdicts, rest = sequential_verdicts(
        pairs, direction="higher", margin=MARGIN, most=10, judged=judged
    )
    assert [len(each.blocks) for each in verdicts] == [7] * 5
    assert {(each.verdict, each.refused) for each in verdicts} == {("inconclusive", "unequal work")}
    assert len(rest) == 5


A, AGAIN, SLOWED = "none", "again", "cpu=9.00%"


def calibrated(
    falls: Mapping[str, float], *, errors: Mapping[str, float] | None = None
) -> Calibration:
    """Return a calibration whose trials change by the level of the slowdown.

    Their throughput falls by this share, and this share of their transactions has errors.
    """

    def series(levels: Levels, block: int) -> Series:
        level = str(levels["slowdown"])
        noise = 0.01 * np.random.default_rng([*level.encode(), block]).standard_normal(30)
        fall = falls.get(level, 0.0) * (np.arange(30) / 30)
        return events(list(14_000 * (1 - fall + noise)), warmup=[14_000.0] * 5)

    def also(levels: Levels, block: int) -> Values:
        share = (errors or {}).get(str(levels["slowdown"]))
        return nothing_else(levels, block) if share is None else {"errors": share * 420_000}

    def rate(levels: Levels) -> float:
        return 14_000.0 * (0.9 if levels["slowdown"] == SLOWED else 1.0)

    run = QueryRun(
        ("mysql-5.6.24",), ("point-query",), (8,), 24, base=A, noise=0.002, rate=rate,
        also=also, series=series, compare="slowdown",
        factors={"slowdown": [A, AGAIN, SLOWED]},
    ).build()  # fmt: skip
    treatments = tuple(
        replace(each, resolved={**each.resolved, "slowdown": A})
        if each.levels["slowdown"] == AGAIN
        else each
        for each in run.treatments
    )
    asked = Calibrates(
        digest="d1ge57", name="sysbench", factor="server", base="mysql-5.6.24", blocks=8,
        margin=MARGIN,
    )  # fmt: skip
    record = replace(run.run, spec=run.run.spec.replace(calibrates=asked))
    return calibration(replace(run, run=record, treatments=treatments))


def test_verdicts_are_refused_as_those_of_a_run() -> None:
    steady = calibrated({})
    assert (steady.refused, steady.false) == (0, 0)
    assert {each.verdict for each in steady.verdicts} == {"equivalent"}
    (injected,) = steady.groups[0].injected
    assert injected.found("higher") == len(injected.verdicts) > 0

    falling = calibrated({A: 0.2})
    assert falling.refused == len(falling.verdicts) == 3
    assert [len(each.blocks) for each in falling.verdicts] == [7, 7, 7]
    assert falling.verdicts[0].refused.startswith("not steady: 7 of 7 trials of mysql-5.6.24 (")
    (injected,) = falling.groups[0].injected
    assert injected.found("higher") == 0
    assert as_json(falling)["refused_verdicts"] == 3
    assert any(
        said.startswith("3 of 3 refused, as a run would; the first: not steady: 7 of 7 trials")
        for said in sentences(falling)
    )


def test_work_that_is_not_the_same_is_refused_too() -> None:
    found = calibrated({}, errors={AGAIN: 0.05})
    assert found.refused == len(found.verdicts)
    assert found.verdicts[0].refused.startswith("unequal work: 4.76 % of the transactions")
    assert [len(each.blocks) for each in found.verdicts] == [5] * 4
