"""Draw the pictures of a trial's seconds, a history and a bisection."""

import math
from itertools import pairwise

import numpy as np

from docs.pictures.noise import correlated
from docs.pictures.svg import Picture, Plot, percent_ticks
from millrace.stats.bisection import next_step
from millrace.stats.bisection_model import Measured, Next, Posterior, Search
from millrace.stats.change_points import change_points
from millrace.stats.steady import steady_state


def steady() -> Picture:
    """Draw the seconds of a trial that warms up, and of one that never becomes steady."""
    source = np.random.default_rng(47)
    n = 120
    noise = 0.04 * correlated(source, (2, n), 0.5)
    warming = 1000 * (1 - 0.5 * np.exp(-np.arange(n) / 8)) * np.exp(noise[0])
    sinking = 1000 * (1.05 - 0.25 * np.arange(n) / n) * np.exp(noise[1])
    picture = Picture(760, 300, "The seconds of two trials")
    for left, values in ((60, warming), (430, sinking)):
        found = steady_state(values.tolist())
        plot = Plot(picture, left, 62, 300, 180, (0, n), (450, 1200))
        head = "Steady after its warm-up" if found.steady else "Never steady"
        below = f"{found.cut} s are cut; the mean of the rest is {found.mean:.0f}"
        if not found.steady:
            below = "no part of it says how fast the server is"
        plot.head(head, below=below)
        plot.up([(y, f"{y}") for y in (500, 750, 1000)])
        plot.across([(t, f"{t}") for t in (0, 30, 60, 90, 120)], "seconds of the trial")
        if found.steady:
            plot.band((0, found.cut), (450, 1200))
            plot.line([(found.cut, found.mean), (n, found.mean)], "good")
        plot.line([*enumerate(values.tolist())], "a" if found.steady else "bad")
    return picture


def history() -> Picture:
    """Draw a nightly series with a spike, a step, and a change of the host."""
    source = np.random.default_rng(48)
    n, step, known, spike = 120, 48, 88, 22
    values = 1000 * np.exp(0.012 * source.standard_normal(n))
    values[step:] *= 0.94
    values[known:] *= 1.11
    values[spike] *= 0.86
    picture = Picture(760, 330, "A history with a spike, a step and a known break")
    plot = Plot(picture, 60, 50, 670, 200, (0, n), (820, 1120))
    plot.head("Throughput, one point a night")
    plot.up([(y, f"{y}") for y in (850, 950, 1050)])
    plot.across([(x, f"{x}") for x in (0, 20, 40, 60, 80, 100, 120)], "night")
    for start, end in ((0, known), (known, n)):
        found = [start + point.index for point in change_points(values[start:end])]
        places = [start, *found, end]
        for first, last in pairwise(places):
            level = float(np.median(values[first:last]))
            plot.line([(first, level), (last, level)], "rule")
        for place in found:
            plot.line([(place, 830), (place, 1110)], "bad")
            size = float(np.median(values[place:end]) / np.median(values[start:place]) - 1)
            plot.text(
                place + 1, 1095, f"candidate: {size * 100:+.1f} % at {place}".replace("-", "−")
            )
    for place, value in enumerate(values.tolist()):
        plot.dot(place, value, "b" if place == spike else "a", radius=2.4)
    plot.text(spike + 1, float(values[spike]), "a spike, no change", of="muted")
    plot.line([(known, 830), (known, 1110)], "dashed")
    plot.text(known + 1, 1095, "known break: another host", of="muted")
    return picture


def bisection() -> Picture:
    """Draw the belief about the first slow version after several numbers of runs."""
    source = np.random.default_rng(49)
    members, first_slow, size = 64, 37, 1.5
    search = Search(members)
    seen: list[Measured] = []
    beliefs: list[tuple[int, Posterior]] = []
    while isinstance(step := next_step(search, seen), Next):
        if step.posterior is not None:
            beliefs.append((len(seen), step.posterior))
        value = size * (step.index >= first_slow) + float(source.standard_normal())
        seen.append(Measured(step.index, value))
    picture = Picture(760, 300, "A bisection among 64 versions")
    shown = [beliefs[0], beliefs[len(beliefs) // 2], beliefs[-1]]
    for left, (runs, belief) in zip((50, 295, 540), shown, strict=True):
        most = max(belief.first)
        top = 0.05 * math.ceil(most / 0.05 + 0.2)
        plot = Plot(picture, left, 62, 195, 180, (0, members), (0, top))
        plot.head(f"after {runs} runs", below=f"most likely: version {np.argmax(belief.first)}")
        plot.up(percent_ticks((0, top)))
        plot.across([(x, f"{x}") for x in (0, 16, 32, 48, 64)], "version")
        for member, weight in enumerate(belief.first):
            plot.line([(member, 0), (member, weight)], "a")
    return picture
