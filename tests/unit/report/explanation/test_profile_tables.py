"""Test the text on profiles next to their tables."""

from __future__ import annotations

import pytest

from millrace.analysis.explain.profiles import FlatLine, FlatProfile
from millrace.report.explanation.profile_tables import (
    FEW_SAMPLES,
    FLAT_LINES,
    few_samples_note,
    flat_note,
)


def flat(samples: int = 1_204, *, trials: int = 2, runs: int = 2, lines: int = 0) -> FlatProfile:
    return FlatProfile(
        trials=trials,
        runs=runs,
        event="cycles",
        call_graph="dwarf",
        user_only=False,
        samples=samples,
        lost=0,
        cpu_us=12.5,
        lines=(FlatLine(1, 0.5, "mysqld", "f", 0.1),) * lines,
    )


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (flat(runs=17), "1,204 samples of cycles in 2 trials of 17 runs, 12.5 µs of CPU time"),
        (flat(), "1,204 samples of cycles in 2 trials, 12.5 µs of CPU time"),
        (flat(trials=1, runs=20), "1,204 samples of cycles in 1 trial of 20 runs, 12.5 µs of"),
        (flat(lines=FLAT_LINES + 2), "; 2 further functions have 1.0 % of them"),
    ],
)
def test_a_flat_profile_says_how_it_was_taken(result: FlatProfile, said: str) -> None:
    assert said in flat_note(result)


def test_sides_with_few_samples_are_told() -> None:
    many, few, none = flat(FEW_SAMPLES), flat(FEW_SAMPLES - 1), flat(3)
    assert few_samples_note([("old", many), ("new", many)]) is None
    assert few_samples_note([("old", None), ("new", many)]) is None
    assert few_samples_note([("old", many), ("new", few)]) == (
        "few samples: 999 in new; more --profile-blocks give more"
    )
    note = few_samples_note([("old", few), ("new", none)])
    assert note is not None
    assert "999 in old, 3 in new; " in note
