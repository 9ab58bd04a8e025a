"""Test the share of a difference that aligned settings recover, from blocks of rates and times."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.certainty import Certainty
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.explain.ablation import ALL, Ablation, Recovery, ablation, with_answers
from millrace.analysis.explain.causes.model import Kind, LikelyCause
from millrace.model.measurements import Direction
from millrace.model.run_spec import Ablates, Aligned
from millrace.report.explanation.ablation import sentences
from millrace.stats.mean import MeanEstimate
from millrace.store import records
from tests.support.builders import bare_attempt
from tests.support.known import known, limits
from tests.support.seconds import events
from tests.support.stored_records import begun

RATE = Metric(
    name="rate", title="transactions per second", unit="1/s", direction="higher", numerator=("n",)
)
ALIGNED = {"binary log": "one", "checksums": "two", ALL: "all"}
TEST = Ablates(
    run="study-0",
    base="a",
    candidate="b",
    aligned=tuple(Aligned(name=name, treatment=of) for name, of in ALIGNED.items()),
    left_out=("compiler: of the build",),
)
WHOLE = {"a": 100.0, "b": 80.0, "one": 90.0, "two": 80.0, "all": 92.0}

Blocks = list[dict[str, float]]
rates = st.floats(10, 1e5)
blocks_of_rates = st.lists(
    st.fixed_dictionaries(dict.fromkeys(("a", "b", *ALIGNED.values()), rates)),
    min_size=1,
    max_size=5,
)


def measured(blocks: Blocks, *, better: Direction = "higher") -> records.StoredRun:
    """Return a run of these values; 0 stands for a trial that failed."""
    trials: list[records.TrialRecord] = []
    attempts: list[records.StoredAttempt] = []
    for block, values in enumerate(blocks):
        for treatment, value in values.items():
            trial = records.TrialRecord(f"{treatment}/{block}", treatment, block, len(trials))
            trials.append(trial)
            failure = {"failed_step": "start", "reason": "mysqld (starting): ended.\n  Its log"}
            attempts.append(
                bare_attempt(
                    len(trials),
                    trial.id,
                    outcome="finished" if value else "failed",
                    measurements=(records.MeasurementRecord("n", value),),
                    **({} if value else failure),
                )
            )
    metric = {"title": "rate", "unit": "1/s", "direction": better, "numerator": ["n"]}
    run = begun().run
    spec = run.spec.replace(workload={"name": "w", "metrics": {"rate": metric}}, tested=TEST)
    run = replace(run, spec=spec)
    names = dict.fromkeys(trial.treatment_id for trial in trials)
    treatments = tuple(records.TreatmentRecord(name, at, {}, {}) for at, name in enumerate(names))
    return records.StoredRun(run, treatments, tuple(trials), tuple(attempts))


def shares(blocks: Blocks, *, better: Direction = "higher") -> Ablation:
    return known(ablation(measured(blocks, better=better)))


def remaining(found: Ablation) -> float:
    return known(found.remaining).mean


def test_a_loss_and_what_is_given_back_of_it() -> None:
    found = shares([{"a": 100, "b": 86, "one": 95, "two": 86, "all": 95}] * 3)
    assert found.loss.mean == pytest.approx(0.14)
    assert [each.name for each in found.recovered] == list(ALIGNED)
    means = [each.share.mean for each in found.recovered]
    assert means == pytest.approx([0.09, 0, 0.09])
    assert remaining(found) == pytest.approx(0.05)
    assert found.recovered[1].remaining.mean == pytest.approx(0.14)
    assert (found.run_id, found.left_out) == ("study-1", TEST.left_out)
    assert found.untried == ()


def test_where_less_is_better_a_longer_time_is_the_loss() -> None:
    found = shares([{"a": 10, "b": 12, "one": 11, "two": 12, "all": 11}] * 2, better="lower")
    assert found.loss.mean == pytest.approx(0.2)
    assert found.recovered[0].share.mean == pytest.approx(0.1)
    assert remaining(found) == pytest.approx(0.1)


@given(blocks_of_rates, st.floats(0.01, 100))
def test_shares_add_up_and_a_hosts_speed_does_not_matter(blocks: Blocks, speed: float) -> None:
    found = shares(blocks)
    together = found.recovered[-1].share.mean
    assert together + remaining(found) == pytest.approx(found.loss.mean, abs=1e-6)
    faster = [{name: rate * speed for name, rate in block.items()} for block in blocks]
    assert shares(faster).loss.mean == pytest.approx(found.loss.mean, rel=1e-6, abs=1e-9)


def test_each_alignment_counts_in_the_blocks_that_have_it_and_both_sides() -> None:
    failed = [{**WHOLE, name: 0.0} for name in ("two", "b", "all")]
    found = shares([WHOLE, *failed, WHOLE])
    assert found.loss.n == 4
    assert {each.name: each.share.n for each in found.recovered} == {
        "binary log": 4,
        "checksums": 3,
        ALL: 3,
    }
    assert found.untried == ()


def test_other_alignments_have_results_when_one_fails() -> None:
    found = shares([{**WHOLE, "two": 0.0, "all": 0.0}] * 2)
    (only,) = found.recovered
    assert (only.name, round(only.share.mean, 9)) == ("binary log", 0.1)
    assert found.untried == (f"checksums, {ALL}: failed at start: mysqld (starting): ended",)
    assert remaining(found) == pytest.approx(0.1)  # with everything that can be tested


def test_what_remains_is_not_known_where_settings_were_aligned_apart_only() -> None:
    found = shares([{**WHOLE, "all": 0.0}] * 2)
    assert len(found.recovered) == 2
    assert found.remaining is None


def test_an_alignment_in_other_blocks_than_both_sides_has_no_result() -> None:
    found = shares([WHOLE | {"two": 0.0}, {"a": 100, "two": 80}])
    assert [each.name for each in found.recovered] == ["binary log", ALL]
    assert found.untried == ("checksums: failed at start: mysqld (starting): ended",)
    found = shares([{name: WHOLE[name] for name in ("a", "b", "one")}, {"two": 80, "all": 92}])
    assert found.untried == (f"checksums, {ALL}: no block has a result of it, of A and of B",)


@pytest.mark.parametrize("without", [{"a"}, {"b"}, set(ALIGNED.values())])
def test_without_a_side_or_any_alignment_there_is_no_answer(without: set[str]) -> None:
    failed = {name: 0.0 if name in without else value for name, value in WHOLE.items()}
    assert ablation(measured([failed] * 2)) is None


def test_a_run_that_ablates_nothing_gives_no_answer() -> None:
    assert begun().run.spec.tested is None
    assert ablation(replace(measured([WHOLE]), run=begun().run)) is None


def test_the_interval_of_a_loss_holds_its_rate() -> None:
    noise = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        drawn = noise.normal(1, 0.03, (5, 5)) * np.array([100, 86, 95, 86, 95])
        names = ("a", "b", *ALIGNED.values())
        blocks = [dict(zip(names, map(float, block), strict=True)) for block in drawn]
        share = shares(blocks).recovered[0].share
        low, high = limits(share)
        held += low <= 0.09 <= high
    assert 365 <= held <= 394  # 380 expected of 400, within 3 standard deviations


def test_a_setting_is_shown_where_its_share_is_certain_and_of_the_losss_sign() -> None:
    def share(mean: float, half: float | None = 0.02) -> MeanEstimate:
        if half is None:
            return MeanEstimate(mean, None, None, 1, 0.95, None)
        return MeanEstimate(mean, mean - half, mean + half, 5, 0.95, 0.01)

    def certainty(loss: float, given: MeanEstimate) -> Certainty | None:
        found = Ablation(RATE, share(loss), (Recovery("binary log", given, share(0.0)),))
        answer = known(found.answer("binary log"))
        return answer.certainty

    assert certainty(0.14, share(0.09)) == Certainty.SHOWN
    assert certainty(-0.14, share(-0.09)) == Certainty.SHOWN
    # Refuted: it can have made less than half, or makes it worse.
    assert certainty(0.14, share(0.01)) is None
    assert certainty(0.14, share(-0.007)) is None
    assert certainty(0.14, share(-0.09)) is None
    # Of a wide interval nothing follows.
    assert certainty(0.14, share(0.05, 0.1)) == Certainty.POSSIBLE
    one_block = Ablation(RATE, share(0.14), (Recovery("binary log", share(0.09, None), share(0)),))
    assert one_block.answer("binary log") is None
    no_loss = Ablation(RATE, share(0.01), (Recovery("binary log", share(0.09), share(0)),))
    assert no_loss.answer("binary log") is None
    assert Ablation(RATE, share(0.1), ()).answer("binary log") is None


def test_what_an_ablation_measured_replaces_what_was_likely() -> None:
    """Of a loss of 60.3 points 26.1 are the hash index, and the binary log is none of them."""

    def estimate(mean: float) -> MeanEstimate:
        return MeanEstimate(mean, mean - 0.02, mean + 0.02, 5, 0.95, 0.01)

    def cause(about: str, kind: Kind = "option", us: float | None = 79.0) -> LikelyCause:
        return LikelyCause(
            kind=kind,
            about=about,
            sentence=f"{about} is ON (at most 79.2 µs a transaction, 5 % of the difference)",
            clause=f"{about} is ON",
            evidence=(),
            us=us,
            share=None if us is None else 0.05,
            certainty=Certainty.FACT if us is None else Certainty.LIKELY,
        )

    parts = {"binary log": -0.007, "adaptive hash index": 0.261, "writers": 0.3}
    found = Ablation(
        RATE,
        estimate(0.603),
        tuple(Recovery(name, estimate(share), estimate(0.3)) for name, share in parts.items()),
    )
    causes = (
        cause("binary log"), cause("CPU time", "cpu"), cause("adaptive hash index"),
        cause("binary log", us=None), cause("writers"), cause("purge"),
    )  # fmt: skip
    after = with_answers(causes, [found], 1000.0)
    assert [each.about for each in after] == ["writers", "adaptive hash index", "CPU time", "purge"]
    _, index, *others = after
    assert (index.certainty, index.may_be_most) == (Certainty.SHOWN, True)
    assert index.share == pytest.approx(0.261 / 0.603)
    assert index.us == pytest.approx(1000 * 0.261 / 0.603)
    assert index.sentence == (
        "adaptive hash index is ON; measured: with it as in A, B gives back 43.3 % of the "
        "difference in transactions per second (40 to 46.6 %)"
    )
    assert others == [causes[1], causes[5]]
    assert with_answers(causes, [], 1000.0) == causes
    # The newest ablation that measured a setting counts.
    older = Ablation(RATE, estimate(0.6), (Recovery("purge", estimate(0.5), estimate(0.1)),))
    assert with_answers(causes, [found, older], 1000.0)[0].about == "purge"


def test_an_ablation_that_was_not_steady_replaces_nothing() -> None:
    blocks = [{**WHOLE, "one": 80.0}] * 4
    found = known(ablation(driven(blocks, falling=("b",))))
    cause = LikelyCause(
        kind="option", about="binary log", sentence="", evidence=(), us=1.0, share=0.5
    )
    assert with_answers((cause,), [found], 10.0) == (cause,)
    steady = known(ablation(driven(blocks, falling=())))
    assert with_answers((cause,), [steady], 10.0) == ()


def driven(blocks: Blocks, *, falling: Collection[str]) -> records.StoredRun:
    """Return a run of driven clients; throughput falls in the trials of these treatments."""

    def with_seconds(attempt: records.StoredAttempt) -> records.StoredAttempt:
        slope = 0.01 if attempt.trial_id.partition("/")[0] in falling else 0.0
        source = np.random.default_rng(attempt.id)
        rates = 1000 * (1 - slope * np.arange(30)) * source.lognormal(0, 0.005, 30)
        measurements = (*attempt.measurements, records.MeasurementRecord("transactions", 30_000.0))
        return replace(attempt, series=events([*rates]), measurements=measurements)

    stored = measured(blocks)
    return replace(stored, attempts=tuple(map(with_seconds, stored.attempts)))


def test_what_was_not_steady_does_not_count() -> None:
    blocks = [WHOLE] * 4
    steady = known(ablation(driven(blocks, falling=())))
    assert (steady.unsteady, steady.untried, len(steady.recovered)) == ("", (), 3)

    one = known(ablation(driven(blocks, falling=("one",))))
    assert (one.unsteady, [each.name for each in one.recovered]) == ("", ["checksums", ALL])
    (untried,) = one.untried
    assert untried.startswith("binary log: not steady: 4 of 4 trials of B with binary log as in A")

    failing = [{**WHOLE, "two": 0.0, "all": 0.0}] * 4
    only = known(ablation(driven(failing, falling=("one",))))
    assert only.unsteady.startswith("not steady: 4 of 4 trials of B with binary log as in A")
    assert [each.partition(": ")[0] for each in only.untried] == [f"checksums, {ALL}"]

    for falling in (("b",), ("a", "b", *ALIGNED.values()), tuple(ALIGNED.values())):
        none = known(ablation(driven(blocks, falling=falling)))
        assert len(none.recovered) == 3
        assert none.answer("binary log") is None
        (answer, *_) = sentences(none, base="5.6", candidate="9.7")
        assert answer.startswith("no answer in rate: not steady: 4 of 4 trials of ")
