"""Test the series and points that a run adds to histories which counts and measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from millrace.analysis.history.recording import Drawn, points_of
from millrace.errors import UserError
from millrace.model.instruction_counts import CountedStart
from millrace.store.records import StoredRun
from tests.support.explained import study_run
from tests.unit.analysis.counts.counted import BASE, MORE, start, with_counts
from tests.unit.analysis.history_points import NOW
from tests.unit.analysis.observations import A, B

COUNTS = {A: BASE.starts, B: MORE.starts}


def counting(counts: Mapping[str, Sequence[CountedStart]]) -> StoredRun:
    """Return a run that counted these starts and nothing else."""
    stored = with_counts(study_run(profiled=0), counts)
    trials = tuple(each for each in stored.trials if each.purpose == "count")
    kept = {each.id for each in trials}
    attempts = tuple(each for each in stored.attempts if each.trial_id in kept)
    run = stored.run
    run = replace(
        run,
        name="count-study",
        versions={**run.versions, "valgrind": "3.19.0"},
        spec=run.spec.replace(counts="instructions"),
    )
    return replace(stored, run=run, trials=trials, attempts=attempts)


def drawn(stored: StoredRun, *, reference: str | None = None, label: str | None = None) -> Drawn:
    return points_of(stored, reference=reference, label=label, at_utc=NOW)


def test_counts_alone_are_a_series_without_clients() -> None:
    part = drawn(counting(COUNTS)).part
    ((series,), ((of, point),), (state,)) = (part.series, part.points, part.states)
    assert of == series.id
    assert (series.metric, series.direction, series.margin) == ("instructions", "lower", 0.002)
    assert (series.experiment, series.reference, series.candidate) == ("count-study", A, None)
    assert "clients" not in series.fixed_factors
    assert point.ratio == pytest.approx(1.064, abs=0.001)
    assert point.low is not None
    assert point.high is not None
    assert point.low < point.ratio < point.high
    assert (point.label, point.level, point.n_blocks, point.log_sd) == (B, B, 3, None)
    assert (point.at_utc, point.place, point.state) == (NOW, 0, state.id)
    assert state.facts["valgrind"] == "3.19.0"


def test_another_valgrind_is_another_environment_of_the_same_series() -> None:
    stored = counting(COUNTS)
    versions = {**stored.run.versions, "valgrind": "3.24.0"}
    later = replace(stored, run=replace(stored.run, versions=versions))
    first, second = (drawn(each).part for each in (stored, later))
    assert first.series == second.series
    assert first.states != second.states


def test_a_label_and_another_reference() -> None:
    part = drawn(counting(COUNTS), reference=B, label="a1b2c3d").part
    ((series,), ((_, point),)) = (part.series, part.points)
    assert (series.reference, point.label, point.level) == (B, "a1b2c3d", A)
    assert point.ratio == pytest.approx(1 / 1.064, abs=0.001)
    with pytest.raises(UserError, match="cannot be the label"):
        drawn(counting(COUNTS), label="two\nlines")


def test_what_was_refused_is_left_out_with_its_reason() -> None:
    unequal = [start(1000, 2000), start(2000, 1000)]
    with pytest.raises(UserError, match=f"has no ratio to {A}") as caught:
        drawn(counting({A: BASE.starts, B: unequal}))
    assert f"{B}: repetitions of the same statements differ" in caught.value.message
    with pytest.raises(UserError, match=f"{B}: no start of the server was counted"):
        drawn(counting({A: BASE.starts}))
