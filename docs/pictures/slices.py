"""Draw how trials and slices meet a host whose speed wanders within seconds."""

import math

import numpy as np

from docs.pictures.noise import Array
from docs.pictures.svg import Picture, Plot
from millrace.trial.slices import trimmed_mean

_SLICE_S = 0.005
_SLOW = 0.7  # of the speed, for seconds at a time: a neighbour on the same core


def wandering() -> Picture:
    """Draw the speed of a host, with two trials and with slices of two servers that are equal."""
    source = np.random.default_rng(9)
    speed = _speed(source, seconds=16)
    picture = Picture(760, 300, "A host whose speed wanders, met by trials and by slices")
    _trials(picture, speed)
    _slices(picture, speed, source)
    return picture


def _speed(source: np.random.Generator, *, seconds: int) -> Array:
    """Return the relative speed in each slice: fast or slow for some seconds, with noise."""
    speed: list[float] = []
    level = 1.0
    while len(speed) * _SLICE_S < seconds:
        speed += [level] * int(source.exponential(2.0) / _SLICE_S + 1)
        level = _SLOW if level == 1.0 else 1.0
    values = np.array(speed[: int(seconds / _SLICE_S)])
    return np.asarray(values * np.exp(0.02 * source.standard_normal(len(values))))


def _trials(picture: Picture, speed: Array) -> None:
    plot = Plot(picture, 50, 62, 300, 180, (0, 16), (0.55, 1.15))
    spans = {"a": (1.0, 4.0), "b": (11.0, 14.0)}
    mean = {
        side: float(speed[int(begin / _SLICE_S) : int(end / _SLICE_S)].mean())
        for side, (begin, end) in spans.items()
    }
    plot.head("Trials of 3 s", below=_seems(math.log(mean["b"] / mean["a"])))
    plot.across([(x, f"{x} s") for x in (0, 4, 8, 12, 16)])
    plot.up([(y, f"{100 * y:.0f} %") for y in (0.6, 0.8, 1.0)])
    tenths = speed.reshape(-1, 20).mean(axis=1)
    times = (np.arange(len(tenths)) + 0.5) * 20 * _SLICE_S
    plot.line(list(zip(times.tolist(), tenths.tolist(), strict=True)), "plain")
    for side, (begin, end) in spans.items():
        plot.line([(begin, mean[side]), (end, mean[side])], side)
        plot.text((begin + end) / 2, 1.08, side.upper(), of=f"head fill-{side}", anchor="middle")


def _slices(picture: Picture, speed: Array, source: np.random.Generator) -> None:
    orders = (("a", "b", "b", "a"), ("b", "a", "a", "b"))
    groups = [orders[each] for each in source.integers(2, size=len(speed) // 4)]
    sides = np.array([side for group in groups for side in group])
    logs = np.log(speed[: len(sides)]).reshape(-1, 4)
    is_b = (sides == "b").reshape(-1, 4)
    found = trimmed_mean(
        [float(row[b].sum() - row[~b].sum()) / 2 for row, b in zip(logs, is_b, strict=True)]
    )
    change = int(np.argmax(np.abs(np.diff(speed)) > 0.2))
    first = (change - 14) // 4 * 4
    shown = range(first, first + 32)
    plot = Plot(picture, 420, 62, 300, 180, (0, 32 * _SLICE_S), (0.55, 1.15))
    plot.head("Slices of 5 ms", below=_seems(found))
    plot.across([(x, f"{1000 * x:.0f} ms") for x in (0, 0.04, 0.08, 0.12, 0.16)])
    plot.up([(y, f"{100 * y:.0f} %") for y in (0.6, 0.8, 1.0)])
    for number, at in enumerate(shown):
        begin, value = number * _SLICE_S, float(speed[at])
        plot.line([(begin, value), (begin + 0.9 * _SLICE_S, value)], str(sides[at]))


def _seems(log: float) -> str:
    percent = 100 * abs(math.expm1(log))
    return f"B seems {percent:.1f} % {'faster' if log > 0 else 'slower'}; nothing differs"
