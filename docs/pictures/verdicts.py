"""Draw the pictures of verdicts on comparisons: unit, turns, three ways, looks, power, many."""

import math

import numpy as np
from scipy import stats

from docs.pictures.noise import Array, correlated, seconds
from docs.pictures.svg import Picture, Plot, percent_ticks
from millrace.analysis.compare.verdict import decide_interval
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.stats.multiple_tests import benjamini_yekutieli
from millrace.stats.power import minimum_detectable_ratio
from millrace.stats.ratio import paired_ratio
from millrace.stats.sequential import FIRST_LOOK, sides

ALPHA = 0.05
_COLOURS = {
    "regression": "bad", "improvement": "good", "equivalent": "plain", "inconclusive": "unsure",
}  # fmt: skip


def unit() -> Picture:
    """Draw the same comparisons of like with like, by seconds and by trials."""
    source = np.random.default_rng(41)
    comparisons, blocks, length = 40, 8, 60
    drift = 0.02 * correlated(source, (comparisons, 2 * blocks), 0.95)
    trials = seconds(source, (comparisons, blocks, 2), length)
    trials += drift.reshape(comparisons, blocks, 2)[..., np.newaxis]
    by_seconds = []
    for each in trials:
        found = stats.ttest_ind(each[:, 1].ravel(), each[:, 0].ravel(), equal_var=False)
        low, high = found.confidence_interval(1 - ALPHA)
        by_seconds.append((float(np.exp(low)), float(np.exp(high))))
    by_blocks = []
    for each in np.exp(trials).mean(axis=-1):
        estimate = paired_ratio(each[:, 0].tolist(), each[:, 1].tolist())
        assert estimate.low is not None
        assert estimate.high is not None
        by_blocks.append((estimate.low, estimate.high))
    picture = Picture(760, 330, "Forty comparisons of a server with itself, judged in two ways")
    _intervals(picture, 40, "Every second as evidence", by_seconds)
    _intervals(picture, 410, "A value a trial, in blocks", by_blocks)
    return picture


def _intervals(
    picture: Picture, left: float, head: str, intervals: list[tuple[float, float]]
) -> None:
    plot = Plot(picture, left, 62, 310, 222, (0.95, 1.05), (len(intervals), -1))
    wrong = sum(not low <= 1 <= high for low, high in intervals)
    plot.head(head, below=f"{wrong} of {len(intervals)} intervals exclude “no difference”")
    plot.across([(1 + x, f"{x * 100:+g} %" if x else "0") for x in (-0.04, -0.02, 0, 0.02, 0.04)])
    plot.line([(1, -1), (1, len(intervals))], "rule")
    for number, (low, high) in enumerate(intervals):
        colour = "plain" if low <= 1 <= high else "bad"
        inside = [(min(max(end, 0.95), 1.05), number) for end in (low, high)]
        plot.line(inside, colour)


def turns() -> Picture:
    """Draw a host that slows down, with trials of each server one after the other and in turns."""
    source = np.random.default_rng(44)
    blocks = 8
    times = np.arange(2 * blocks)
    level = 1000 * np.exp(-0.05 * times / len(times) + 0.004 * source.standard_normal(len(times)))
    first = np.asarray(times >= blocks)
    by_turns = np.concatenate([source.permutation(2) for _ in range(blocks)]).astype(np.bool_)
    picture = Picture(760, 300, "A host that drifts, and two orders of the same trials")
    for left, head, is_b in (
        (50, "All of A, then all of B", first),
        (420, "Blocks of A and B in random order", by_turns),
    ):
        a, b = level[~is_b], level[is_b]
        ratio = paired_ratio(a.tolist(), b.tolist()).ratio
        plot = Plot(picture, left, 62, 300, 180, (-0.7, 15.7), (930, 1015))
        plot.head(head, below=f"B seems {abs(ratio - 1) * 100:.1f} % slower; nothing differs")
        plot.up([(y, f"{y}") for y in (940, 960, 980, 1000)])
        for time, value in enumerate(level):
            plot.dot(time, float(value), "b" if is_b[time] else "a", radius=5)
        _, bottom = plot.at(0, 930)
        picture.dot(left + 80, bottom + 21, "a", radius=5)
        picture.text(left + 90, bottom + 25, "trial of A", of="muted")
        picture.dot(left + 170, bottom + 21, "b", radius=5)
        picture.text(left + 180, bottom + 25, "trial of B", of="muted")
    return picture


def three_ways() -> Picture:
    """Draw intervals and their verdicts, with a margin of 2 %."""
    margin = 0.02
    shown = [(0.93, 0.91, 0.95), (1.045, 1.012, 1.08), (1.003, 0.992, 1.014), (0.989, 0.983, 0.995),
             (1.012, 0.96, 1.065), (1.014, 1.003, 1.026)]  # fmt: skip
    picture = Picture(760, 290, "Six intervals of a ratio of throughputs, and their verdicts")
    plot = Plot(picture, 30, 40, 400, 200, (0.9, 1.1), (len(shown) - 0.4, -0.6))
    plot.band((1 / (1 + margin), 1 + margin), (len(shown) - 0.4, -0.6))
    plot.across(
        [(1 + x, f"{x * 100:+g} %" if x else "0") for x in (-0.1, -0.05, 0, 0.05, 0.1)],
        "candidate against base; the band is the margin of 2 %",
    )
    plot.line([(1, -0.6), (1, len(shown) - 0.4)], "rule")
    for number, (ratio, low, high) in enumerate(shown):
        verdict, reason = decide_interval(ratio, low, high, "higher", margin)
        plot.line([(low, number), (high, number)], _COLOURS[verdict])
        plot.dot(ratio, number, _COLOURS[verdict], radius=4.5)
        x, y = plot.at(1.1, number)
        picture.text(x + 18, y - 3, verdict, of="head")
        picture.text(x + 18, y + 12, _SHORT.get(reason, reason), of="muted")
    return picture


_SHORT = {
    "the interval excludes 1 and the estimate is beyond 2 %": "excludes 0, and large enough",
    "the interval lies inside 2 %": "all of it inside the margin",
    "the interval lies inside 2 %, though it excludes 1": "real, but too small to matter",
    "the interval includes no difference and differences beyond 2 %": "anything is possible",
    "a real difference, since the interval excludes 1, but the estimate is within 2 % and the "
    "interval reaches beyond": "real, but is it large enough?",
}


def looks() -> Picture:
    """Draw the share of comparisons of like with like called different up to each look."""
    source = np.random.default_rng(45)
    runs, most = 4000, 40
    ratios = source.standard_normal((runs, most))
    kept = sides(ratios, ALPHA) != 0
    peeked = np.zeros_like(kept)
    for n in range(FEWEST_BLOCKS, most + 1):
        so_far = ratios[:, :n]
        t = so_far.mean(axis=1) / (so_far.std(axis=1, ddof=1) / math.sqrt(n))
        peeked[:, n - 1] = np.abs(t) > stats.t.isf(ALPHA / 2, n - 1)
    picture = Picture(760, 330, "False alarms of who looks after every block")
    plot = Plot(picture, 60, 50, 480, 220, (5, most), (0, 0.27))
    plot.head(f"Called different so far, of {runs:,} comparisons of like with like")
    plot.up(percent_ticks((0, 0.05, 0.10, 0.15, 0.20, 0.25)))
    plot.across([(n, f"{n}") for n in (5, 10, 20, 30, 40)], "blocks, with a look after each")
    plot.line([(5, ALPHA), (most, ALPHA)], "dashed")
    for flags, colour, name in (
        (peeked, "bad", "t-test, made for one look"),
        (kept, "good", "the interval millrace uses"),
    ):
        share = [_share(flags, n) for n in range(FIRST_LOOK, most + 1)]
        plot.line([*zip(range(FIRST_LOOK, most + 1), share, strict=True)], colour)
        x, y = plot.at(most, share[-1])
        picture.text(x + 8, y + 4, name)
        picture.text(x + 8, y + 20, f"{share[-1] * 100:.1f} % after {most}", of="muted")
    plot.text(22, 0.056, "what was promised: 5 %", of="muted")
    return picture


def _share(flags: Array | np.ndarray[tuple[int, ...], np.dtype[np.bool_]], n: int) -> float:
    """Return the share called different at any look from the fifth block to the n-th."""
    return float(flags[:, FIRST_LOOK - 1 : n].any(axis=1).mean())


def reach() -> Picture:
    """Draw the smallest difference that each number of blocks detects."""
    picture = Picture(760, 330, "The smallest difference that is seen, by the number of blocks")
    plot = Plot(picture, 60, 50, 510, 220, (5, 40), (0, 0.16))
    plot.head("Smallest difference seen with a probability of 80 %")
    plot.up(percent_ticks((0, 0.02, 0.05, 0.10, 0.15)))
    plot.across([(n, f"{n}") for n in (5, 10, 15, 20, 30, 40)], "blocks")
    for spread, colour, down in ((0.04, "bad", 4), (0.02, "b", 0), (0.01, "a", 14)):
        points = [(n, minimum_detectable_ratio(spread, n, looks="any") - 1) for n in range(5, 41)]
        plot.line([(n, size) for n, size in points if size <= 0.16], colour)
        x, y = plot.at(*points[-1])
        picture.text(x + 8, y + down, f"blocks differ by {spread * 100:g} %")
    return picture


def many() -> Picture:
    """Draw how often at least one of several comparisons of like with like is called different."""
    source = np.random.default_rng(46)
    runs, sizes = 2000, (1, 2, 5, 10, 20, 40, 60, 80, 100)
    alone, left = [], []
    for size in sizes:
        base = source.standard_normal((runs, 1))
        z = (source.standard_normal((runs, size)) - base) / math.sqrt(2)
        p_values = 2 * stats.norm.sf(np.abs(z))
        alone.append(float((p_values <= ALPHA).any(axis=1).mean()))
        least = [min(benjamini_yekutieli(each.tolist())) for each in p_values]
        left.append(float(np.mean(np.asarray(least) <= ALPHA)))
    picture = Picture(760, 330, "Many comparisons of like with like")
    plot = Plot(picture, 60, 50, 480, 220, (0, 100), (0, 1))
    plot.head("A matrix without a difference has at least one “difference”")
    plot.up(percent_ticks((0, 0.25, 0.5, 0.75, 1)))
    plot.across([(n, f"{n}") for n in (1, 20, 40, 60, 80, 100)], "comparisons with the same base")
    for share, colour, name, down in (
        (alone, "bad", "each verdict for itself", 4),
        (left, "good", "what is left in a report", -22),
    ):
        plot.line([*zip(sizes, share, strict=True)], colour)
        x, y = plot.at(sizes[-1], share[-1])
        picture.text(x + 8, y + down, name)
        picture.text(x + 8, y + down + 16, f"{share[-1] * 100:.0f} % of matrices", of="muted")
    return picture
