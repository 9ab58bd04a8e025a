"""Test the experiment that calibrates, and which of its blocks comes next."""

from dataclasses import replace

import pytest

from millrace.analysis.compare.calibration import Calibration, GroupCalibration, InjectedSlowdown
from millrace.campaign.policies.calibrate import (
    CalibrationBlock,
    block_plan,
    calibration_experiment,
    groups_of,
    next_block,
    stop_of_size,
)
from millrace.errors import TrialFailed, UserError
from millrace.experiment.model import Experiment
from millrace.experiment.plan import expand
from millrace.experiment.slowdown import AGAIN, NONE, Stopped, slowdown_named
from tests.support.builders import study
from tests.support.experiment_files import SMALL, parsed

FACTORS = 'server = ["mysql-5.6.24", "mysql-5.7.22"]\nengine = ["InnoDB", "MyISAM"]'


@pytest.fixture
def experiment() -> Experiment:
    text = SMALL.replace('server = ["mysql-5.6.24", "mysql-5.7.22"]', FACTORS)
    return parsed(text)


def test_the_base_is_measured_beside_itself_in_each_group(experiment: Experiment) -> None:
    made = calibration_experiment(experiment)
    plan = expand(made, seed=1)
    levels = [(each.levels["engine"], each.levels["slowdown"]) for each in plan.treatments]
    assert levels == [(e, s) for e in ("InnoDB", "MyISAM") for s in (NONE, AGAIN)]
    assert {each.resolved["server"] for each in plan.treatments} == {"mysql-5.6.24"}
    assert {each.resolved["slowdown"] for each in plan.treatments} == {NONE}
    assert len({each.id for each in plan.treatments}) == 4
    asked = made.campaign.calibrates
    assert asked is not None
    assert (asked.name, asked.factor, asked.base) == ("small", "server", "mysql-5.6.24")
    assert asked.digest == expand(experiment, seed=1).digest != plan.digest


def test_a_base_that_is_an_alias_is_measured_as_what_it_stands_for() -> None:
    aliased = 'server = { levels = ["old", "mysql-5.7.22"], aliases = { old = "mysql-5.6.24" } }'
    text = SMALL.replace('server = ["mysql-5.6.24", "mysql-5.7.22"]', aliased)
    text = text.replace('base = "mysql-5.6.24"', 'base = "old"')
    plan = expand(calibration_experiment(parsed(text)), seed=1)
    assert {each.resolved["server"] for each in plan.treatments} == {"mysql-5.6.24"}


def test_too_few_blocks_are_refused_with_a_remedy(experiment: Experiment) -> None:
    with pytest.raises(UserError, match="2 blocks cannot give a verdict") as refused:
        calibration_experiment(replace(experiment, blocks=2))
    assert "--blocks" in (refused.value.hint or "")


def test_a_block_holds_the_groups_that_want_one(experiment: Experiment) -> None:
    made = calibration_experiment(experiment)
    groups = groups_of(made)
    assert [held["engine"] for held in groups] == ["InnoDB", "MyISAM"]
    whole = block_plan(made, CalibrationBlock(AGAIN, groups), seed=3, block=4, position=16)
    assert [trial.position for trial in whole.trials] == [16, 17, 18, 19]
    assert {trial.block for trial in whole.trials} == {4}
    one = block_plan(made, CalibrationBlock("cpu=3%", groups[1:]), seed=3, block=4, position=16)
    assert {trial.treatment.levels["engine"] for trial in one.trials} == {"MyISAM"}
    assert {trial.treatment.levels["slowdown"] for trial in one.trials} == {NONE, "cpu=3%"}
    # A is the same treatment in all blocks, whatever its candidate.
    a = {trial.treatment.id for trial in whole.trials} & {each.treatment.id for each in one.trials}
    assert len(a) == 1


def found(experiment: Experiment, *, verdicts: tuple[int, int], **of_second: object) -> Calibration:
    """Return a calibration with this many verdicts in its two groups."""
    asked = calibration_experiment(experiment).campaign.calibrates
    assert asked is not None
    one = object()  # verdicts, which are only counted
    groups = tuple(
        GroupCalibration(
            fixed_factors=held,
            label=str(held["engine"]),
            treatments=("a", "b"),
            verdicts=(one,) * n,  # type: ignore[arg-type]
            under_way=(),
            noise=None,
            detectable={asked.blocks: 0.04},
            block_s=6.0,
            injected=(),
            failed=0,
        )
        for held, n in zip(groups_of(calibration_experiment(experiment)), verdicts, strict=True)
    )
    second = replace(groups[1], **of_second)  # type: ignore[arg-type]
    return Calibration(
        run=None,  # type: ignore[arg-type]
        target=asked,
        metric=None,  # type: ignore[arg-type]
        groups=(groups[0], second),
        ended_utc="2026-01-05T10:00:00Z",
    )


def test_groups_have_the_same_number_of_verdicts_and_then_drop_out(experiment: Experiment) -> None:
    groups = groups_of(calibration_experiment(experiment))
    both, second = CalibrationBlock(AGAIN, groups), CalibrationBlock(AGAIN, groups[1:])
    assert next_block(None, groups, verdicts=5, injected_kind=None) == both
    for counts, following in (((2, 2), both), ((3, 2), second), ((3, 3), None)):
        so_far = found(experiment, verdicts=counts)
        assert next_block(so_far, groups, verdicts=5, injected_kind=None) == following


def test_slowdown_is_sized_by_the_detectable_change_and_kept_on_resume(
    experiment: Experiment,
) -> None:
    groups = groups_of(calibration_experiment(experiment))
    so_far = found(experiment, verdicts=(1, 1))
    wanted = next_block(so_far, groups, verdicts=2, injected_kind="cpu")
    assert wanted is not None
    assert wanted.groups == groups[:1]
    injected = slowdown_named(wanted.level)
    assert isinstance(injected, Stopped)
    assert injected.share == pytest.approx(1 - 1 / 1.08, abs=1e-5)
    begun = InjectedSlowdown("cpu=2%", (), (), None, 0.02)
    so_far = replace(so_far, groups=(replace(so_far.groups[0], injected=(begun,)),))
    wanted = next_block(so_far, groups[:1], verdicts=1, injected_kind="cpu")
    assert wanted == CalibrationBlock("cpu=2%", groups[:1])


def test_a_change_within_the_margin_is_not_injected(experiment: Experiment) -> None:
    so_far = found(experiment, verdicts=(1, 1), detectable={10: 0.001})
    assert stop_of_size(so_far.groups[1], so_far, 1.0).share == pytest.approx(1 - 1 / 1.02)


@pytest.mark.parametrize(
    ("injected_kind", "level"), [("fsync", "fsync=1000us"), ("innodb_x=1", "innodb_x=1")]
)
def test_other_slowdowns_are_injected_as_they_are(
    experiment: Experiment, injected_kind: str, level: str
) -> None:
    groups = groups_of(calibration_experiment(experiment))
    wanted = next_block(
        found(experiment, verdicts=(1, 1)), groups, verdicts=2, injected_kind=injected_kind
    )
    assert wanted == CalibrationBlock(level, groups[:1])


def test_trials_that_go_on_failing_end_it(experiment: Experiment) -> None:
    groups = groups_of(calibration_experiment(experiment))
    failing = found(experiment, verdicts=(0, 0), failed=4)
    failing = replace(failing, run=study().run)
    with pytest.raises(TrialFailed, match="4 trials of MyISAM failed"):
        next_block(failing, groups, verdicts=2, injected_kind=None)


def test_a_and_a_again_take_turns_at_being_first(experiment: Experiment) -> None:
    """If one always came first, drift would make a difference where there is none."""
    made = calibration_experiment(experiment)
    groups = groups_of(made)[:1]
    first = [
        block_plan(made, CalibrationBlock(AGAIN, groups), seed=3, block=n, position=0).trials[0]
        for n in range(100)
    ]
    assert 30 < sum(trial.treatment.levels["slowdown"] == NONE for trial in first) < 70
