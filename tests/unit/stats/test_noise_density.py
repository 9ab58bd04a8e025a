"""Test the density of noise around unknown levels."""

from __future__ import annotations

import numpy as np

from millrace.stats.level_density import residual_density, student_density
from millrace.stats.noise_density import noise_density


def test_steps_do_not_blur_noise_of_two_modes() -> None:
    """Two steps of half the distance between the modes look like a third mode otherwise."""
    source = np.random.default_rng(1)
    noise = source.choice([-0.02, 0.02], 200) + source.normal(0, 0.003, 200)
    stepped = noise + np.where((np.arange(200) // 50) % 2 == 1, 0.02, 0.0)
    start = student_density(0.02)
    found = noise_density(stepped - 0.01, start, inflated=1.0, rounds=6)
    true, blurred = residual_density(noise, 0.02), residual_density(stepped - 0.01, 0.02)

    def distance(table: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        shifts = range(-8, 9)  # a density has no level of its own
        return min(
            float(np.abs(np.exp(np.roll(table, shift)) - np.exp(true.table)).sum())
            for shift in shifts
        )

    assert distance(found.table) < distance(blurred.table) / 2
