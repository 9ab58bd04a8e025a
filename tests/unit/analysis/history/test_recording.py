"""Test the series, points and environments that a run adds to histories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.history.recording import Drawn, points_of
from millrace.errors import UserError
from millrace.model.instruction_counts import CountedStart
from millrace.store.records import HostRecord, InstanceRecord, StoredRun
from tests.support.builders import Fails, RunBuilder, noisy
from tests.support.counted_starts import BASE, MORE, start, with_counts
from tests.support.explained import study_run
from tests.support.history_points import CANDIDATE, NOW, REFERENCE, run_of
from tests.support.known import known, limits
from tests.support.observed_trials import A, B

THIRD = "mysql-8.0.12"


def drawn(stored: StoredRun, *, reference: str | None = None, label: str | None = None) -> Drawn:
    return points_of(stored, reference=reference, label=label, at_utc=NOW)


def rebuilt(stored: StoredRun, server: str) -> StoredRun:
    """Return the run as if this server had been rebuilt."""

    def again(instance: InstanceRecord) -> InstanceRecord:
        if instance.server.name != server:
            return instance
        build = instance.server.build.replace(program_sha256="ef" * 32)
        return replace(instance, server=replace(instance.server, build=build))

    return with_instances(stored, again)


def restored(stored: StoredRun, place: str, *, chosen: str = "auto") -> StoredRun:
    """Return the run as if its servers had started on files in that place."""
    spec = stored.run.spec
    spec = spec.replace(parameters={**spec.parameters, "page_cache": chosen})
    return with_instances(
        of_run(stored, spec=spec),
        lambda each: replace(each, facts=each.facts.replace(page_cache=place)),
    )


def of_run(stored: StoredRun, **changed: Any) -> StoredRun:
    """Return the run with other values in its record."""
    return replace(stored, run=replace(stored.run, **changed))


def with_instances(
    stored: StoredRun, again: Callable[[InstanceRecord], InstanceRecord]
) -> StoredRun:
    return replace(
        stored,
        attempts=tuple(
            replace(each, instances=tuple(map(again, each.instances))) for each in stored.attempts
        ),
    )


def state_of(stored: StoredRun) -> str:
    (state,) = drawn(stored).part.states
    return state.id


def test_every_metric_is_a_series_and_its_ratio_a_point() -> None:
    stored = run_of("r1")
    found = drawn(stored)
    metrics = {each.id: each.metric for each in found.part.series}
    points = {metrics[series]: point for series, point in found.part.points}
    comparisons = {c.metric.name: c for g in compare_run(stored).groups for c in g.comparisons}
    assert points.keys() == comparisons.keys()
    assert len(found.part.series) == len(points) > 1
    assert found.left_out == ()
    for metric, point in points.items():
        estimate = known(comparisons[metric].estimate)
        assert (point.ratio, point.low, point.high) == (estimate.ratio, estimate.low, estimate.high)
        assert (point.n_blocks, point.log_sd) == (5, estimate.log_sd)
        assert (point.label, point.at_utc, point.run_id) == (CANDIDATE, NOW, "r1")
        assert (point.level, point.build) == (CANDIDATE, "cd" * 32)
    series = next(each for each in found.part.series if each.metric == "throughput")
    assert (series.reference, series.candidate, series.factor) == (REFERENCE, None, "server")
    assert series.fixed_factors == {
        "configuration": "default",
        "engine": "InnoDB",
        "load_mode": "local",
    }
    assert (series.direction, series.margin) == ("higher", 0.02)


def test_a_label_names_the_point_of_one_candidate() -> None:
    one, other = drawn(run_of("r1"), label="a1b2c3d"), drawn(run_of("r2"))
    assert {point.label for _, point in one.part.points} == {"a1b2c3d"}
    # Consecutive builds may have the same name or not: it is one series.
    assert {each.id for each in one.part.series} == {each.id for each in other.part.series}


def test_candidates_without_a_label_follow_each_other_in_one_series() -> None:
    found = drawn(run_of("r1", candidates=(CANDIDATE, THIRD)))
    assert {each.candidate for each in found.part.series} == {None}
    places = {point.label: point.place for _, point in found.part.points}
    assert places == {CANDIDATE: 0, THIRD: 1}


def test_candidates_with_a_label_have_series_of_their_own() -> None:
    found = drawn(run_of("r1", candidates=(CANDIDATE, THIRD)), label="2026-05")
    assert {each.candidate for each in found.part.series} == {CANDIDATE, THIRD}
    assert len({series for series, _ in found.part.points}) == len(found.part.points)
    assert {point.label for _, point in found.part.points} == {"2026-05"}


def test_held_levels_tell_series_apart() -> None:
    times = {
        (server, configuration): noisy(3.0 if server == REFERENCE else 3.3, 3, seed=seed)
        for seed, (server, configuration) in enumerate(
            [(REFERENCE, "default"), (REFERENCE, "wmf"), (CANDIDATE, "default"), (CANDIDATE, "wmf")]
        )
    }
    factors = {"configuration": ["default", "wmf"]}
    found = drawn(RunBuilder(times, factors=factors).build())
    assert {each.fixed_factors["configuration"] for each in found.part.series} == {"default", "wmf"}
    assert len(found.part.states) == 2  # with one configuration each


def test_another_reference_makes_other_series() -> None:
    stored = run_of("r1", candidates=(CANDIDATE, THIRD))
    usual, other = drawn(stored), drawn(stored, reference=THIRD)
    assert {each.reference for each in other.part.series} == {THIRD}
    assert {point.label for _, point in other.part.points} == {REFERENCE, CANDIDATE}
    assert not {each.id for each in usual.part.series} & {each.id for each in other.part.series}


def test_a_run_without_the_reference_is_refused() -> None:
    with pytest.raises(
        UserError, match="'mysql-9' is not a level of the compared factor"
    ) as caught:
        drawn(run_of("r1"), reference="mysql-9")
    assert CANDIDATE in (caught.value.hint or "")
    alone = RunBuilder({REFERENCE: noisy(3.0, 3)}).build()
    with pytest.raises(UserError, match="has no candidate beside the reference"):
        drawn(alone)


def test_what_failed_is_left_out_with_its_reason() -> None:
    times = {REFERENCE: noisy(3.0, 3), CANDIDATE: noisy(3.3, 3)}
    found = drawn(RunBuilder({**times, THIRD: [Fails()] * 3}).build())
    assert {point.label for _, point in found.part.points} == {CANDIDATE}
    (clause,) = found.left_out
    assert clause.startswith(f"{THIRD}: {THIRD} failed at step start")
    with pytest.raises(UserError, match="has no ratio to mysql") as caught:
        drawn(RunBuilder({REFERENCE: [Fails()] * 3, CANDIDATE: noisy(3.3, 3)}).build())
    assert "failed at step start" in caught.value.message


@pytest.mark.parametrize("label", ["", "  ", "two\nlines", "x" * 256])
def test_what_cannot_be_a_label_is_refused(label: str) -> None:
    with pytest.raises(UserError, match="cannot be the label"):
        drawn(run_of("r1"), label=label)


def test_a_base_that_was_measured_twice_is_no_point_beside_others() -> None:
    times = {REFERENCE: noisy(3.0, 3), "mysql-again": noisy(3.0, 3, seed=2)}
    aliases = {"mysql-again": REFERENCE}
    twice = RunBuilder({**times, CANDIDATE: noisy(3.3, 3, seed=3)}, aliases=aliases).build()
    assert {point.label for _, point in drawn(twice).part.points} == {CANDIDATE}
    alone = RunBuilder(times, aliases=aliases).build()
    assert {point.label for _, point in drawn(alone).part.points} == {"mysql-again"}


def changed_facts(stored: StoredRun, **facts: Any) -> StoredRun:
    host = stored.run.host
    return of_run(stored, host=HostRecord(host.id, host.facts.replace(**facts)))


def test_the_state_is_that_of_host_reference_and_configuration() -> None:
    stored = run_of("r1")
    usual = state_of(stored)
    assert state_of(run_of("r2", ratio=0.5, seed=9)) == usual
    assert state_of(rebuilt(stored, CANDIDATE)) == usual  # the candidate is the watched one
    assert state_of(changed_facts(stored, load={"average_1min": 7.0})) == usual
    assert state_of(restored(stored, "cold")) == usual
    run = stored.run
    configurations = {"default": {"options": {"sync_binlog": 0}}}
    others = [
        rebuilt(stored, REFERENCE),
        changed_facts(stored, kernel={"release": "6.2", "architecture": "x86_64"}),
        of_run(stored, spec=run.spec.replace(configurations=configurations)),
        restored(stored, "warm"),
        of_run(stored, host=HostRecord("host-2", run.host.facts)),
        of_run(stored, versions={**run.versions, "load_generator": "9"}),
    ]
    states = {state_of(other) for other in others}
    assert len(states) == len(others)
    assert usual not in states


def test_page_cache_is_in_the_series_when_the_experiment_sets_it() -> None:
    stored = run_of("r1")
    assert state_of(restored(stored, "warm", chosen="warm")) == state_of(stored)


def test_counted_instructions_are_a_series_for_all_numbers_of_clients() -> None:
    stored = study_run(counted=True, clients=(8, 1))
    found = drawn(stored).part
    (series,) = (each for each in found.series if each.metric == "instructions")
    (point,) = (point for of, point in found.points if of == series.id)
    assert "clients" not in series.fixed_factors
    assert (series.direction, series.margin) == ("lower", 0.002)
    assert point.ratio == pytest.approx(1.064, abs=0.001)
    assert (point.n_blocks, point.log_sd) == (3, None)
    assert all(each.metric != "instructions" for each in drawn(study_run()).part.series)


def test_another_digest_makes_other_series() -> None:
    stored = run_of("r1")
    usual, other = (drawn(each).part for each in (stored, of_run(stored, digest="another")))
    assert not {each.id for each in usual.series} & {each.id for each in other.series}


COUNTS = {A: BASE.starts, B: MORE.starts}


def counting(counts: Mapping[str, Sequence[CountedStart]]) -> StoredRun:
    """Return a run that counted these starts and nothing else."""
    stored = with_counts(study_run(profiled=0), counts)
    trials = tuple(each for each in stored.trials if each.purpose == "count")
    kept = {each.id for each in trials}
    attempts = tuple(each for each in stored.attempts if each.trial_id in kept)
    counted = of_run(
        stored,
        name="count-study",
        versions={**stored.run.versions, "valgrind": "3.19.0"},
        spec=stored.run.spec.replace(counts="instructions"),
    )
    return replace(counted, trials=trials, attempts=attempts)


def test_counts_alone_are_a_series_without_clients() -> None:
    part = drawn(counting(COUNTS)).part
    ((series,), ((of, point),), (state,)) = (part.series, part.points, part.states)
    assert of == series.id
    assert (series.metric, series.direction, series.margin) == ("instructions", "lower", 0.002)
    assert (series.experiment, series.reference, series.candidate) == ("count-study", A, None)
    assert "clients" not in series.fixed_factors
    assert point.ratio == pytest.approx(1.064, abs=0.001)
    low, high = limits(point)
    assert low < point.ratio < high
    assert (point.label, point.level, point.n_blocks, point.log_sd) == (B, B, 3, None)
    assert (point.at_utc, point.place, point.state) == (NOW, 0, state.id)
    assert state.facts["valgrind"] == "3.19.0"


def test_another_valgrind_is_another_environment_of_the_same_series() -> None:
    stored = counting(COUNTS)
    versions = {**stored.run.versions, "valgrind": "3.24.0"}
    first, second = (drawn(each).part for each in (stored, of_run(stored, versions=versions)))
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
