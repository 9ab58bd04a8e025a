"""Test the experiment that confirms a change: its builds, blocks, and the change it belongs to."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.analysis.history.confirmation import Ends
from millrace.campaign.policies import confirm
from millrace.errors import UserError
from millrace.experiment.model import Experiment
from millrace.experiment.plan import expand
from millrace.model.run_spec import CampaignPart, FactorSpec
from millrace.store import history_records
from millrace.store.history_records import ChangeRecord, History, PointRecord, SeriesRecord
from millrace.store.records import StoredRun
from millrace.store.store import Store
from tests.support.builders import keep
from tests.support.history_points import (
    NOW,
    OTHER_STATE,
    SERIES,
    STATE,
    change,
    history,
    part_of,
    point,
    run_of,
)
from tests.support.stored_records import dead

FLAT = history([1.0] * 80)
HELD = {"configuration": "default", "engine": "InnoDB", "load_mode": "local"}
SPEED = replace(SERIES, metric="throughput", fixed_factors=HELD)


def lacking(*labels: str) -> Callable[[PointRecord], str]:
    return lambda point: f"server {point.level} is not available any more" * (point.label in labels)


def chosen(
    found: ChangeRecord, *others: ChangeRecord, lost: tuple[str, ...] = (), made: History = FLAT
) -> tuple[str, str]:
    builds = confirm.builds_of(made, found, [found, *others], lacking(*lost))
    return builds.ends.before, builds.ends.after


def test_the_builds_are_those_that_are_surely_before_and_after() -> None:
    assert chosen(change(40)) == ("v39", "v40")
    assert chosen(change(40, width=3)) == ("v36", "v43")


def test_builds_that_are_gone_are_replaced_by_the_nearest_of_their_level() -> None:
    assert chosen(change(40), lost=("v39", "v38", "v40")) == ("v37", "v41")


def test_builds_are_of_the_levels_beside_the_change() -> None:
    beside = [change(38), change(42)]
    assert chosen(change(40), *beside, lost=("v40",)) == ("v39", "v41")
    with pytest.raises(UserError, match="no build before the change at v40") as caught:
        chosen(change(40), *beside, lost=("v38", "v39"))
    assert "server build-39 is not available any more" in caught.value.message
    assert "servers add" in (caught.value.hint or "")
    # A withdrawn change does not change the level.
    gone = [replace(each, state="withdrawn") for each in beside]
    assert chosen(change(40), *gone, lost=("v38", "v39")) == ("v37", "v40")


def test_builds_are_of_the_same_state() -> None:
    states = [STATE.id] * 30 + [OTHER_STATE.id] * 9 + [STATE.id] * 41
    assert chosen(change(40), made=history([1.0] * 80, states)) == ("v39", "v40")
    assert chosen(change(39), made=history([1.0] * 80, states)) == ("v29", "v39")


def test_one_name_for_both_builds_is_refused() -> None:
    same = History(SERIES, tuple(replace(each, level="nightly") for each in FLAT.points))
    with pytest.raises(UserError, match="v39 and v40 were both recorded from nightly"):
        chosen(change(40), made=same)


def test_a_change_without_its_points_is_refused() -> None:
    with pytest.raises(UserError, match="were taken out"):
        chosen(change(200))


def test_builds_of_other_factors_are_always_there() -> None:
    option = replace(SERIES, factor="options.innodb_doublewrite")
    assert confirm.unobtainable(option)(point(1, 1.0)) == ""


def test_a_server_that_is_another_build_or_gone_is_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    why = confirm.unobtainable(SERIES)
    assert (
        why(point(1, 1.0, level="no-such-server"))
        == "server no-such-server is not available any more"
    )
    assert why(point(1, 1.0, level="mysql-5.7.22", build=None)) == ""

    class Installed:
        class provenance:  # noqa: N801
            program_sha256 = "ab"

    monkeypatch.setattr(confirm, "InstalledServer", Installed)
    monkeypatch.setattr("millrace.servers.install.find", lambda _name: Installed())
    assert why(point(1, 1.0, level="mysql-5.7.22", build="ab")) == ""
    other = why(point(1, 1.0, level="mysql-5.7.22", build="cd"))
    assert other == "mysql-5.7.22 is a different build now"


@pytest.mark.parametrize(
    ("ratio", "log_sd", "least", "most"),
    [
        (0.5, 0.01, confirm.FEWEST_TO_CONFIRM, confirm.FEWEST_TO_CONFIRM),
        (0.95, 0.03, 8, 30),
        (0.999, 0.05, 40, confirm.MOST_TO_CONFIRM),
    ],
)
def test_small_changes_in_noise_want_more_blocks(
    ratio: float, log_sd: float, least: int, most: int
) -> None:
    builds = confirm.Builds(point(1, 1.0, log_sd=log_sd), point(2, ratio, log_sd=log_sd / 2))
    assert least <= confirm.blocks_of(change(2, ratio), builds) <= most
    unknown = confirm.Builds(point(1, 1.0, log_sd=None), point(2, ratio, log_sd=None))
    assert confirm.blocks_of(change(2, ratio), unknown) == confirm.FEWEST_TO_CONFIRM


def test_configurations_that_are_compared_have_to_be_defined() -> None:
    compared = replace(SPEED, factor="configuration")
    builds = confirm.Builds(point(1, 1.0, level="default"), point(2, 1.0, level="tuned"))
    with pytest.raises(UserError, match="default and tuned: the remaining runs do not define both"):
        confirm.confirming_experiment([run_of("r1")], compared, change(2, 0.9), builds, 5)


def test_levels_that_no_run_here_has_are_not_measured() -> None:
    """A point or a series of an import may have any level of an option, or of a factor in SQL."""
    run = run_of("r1")
    option = FactorSpec(name="options.innodb_doublewrite", levels=("ON", "OFF"))
    spec = run.run.spec.replace(factors=(*run.run.spec.factors, option))
    run = replace(run, run=replace(run.run, spec=spec))
    held = {**HELD, "server": "mysql-5.7.22"}
    compared = replace(SPEED, factor=option.name, fixed_factors=held)

    def experiment_of(level: str, series: SeriesRecord = compared) -> Experiment:
        builds = confirm.Builds(point(1, 1.0, level="ON"), point(2, 1.0, level=level))
        return confirm.confirming_experiment([run], series, change(2, 0.9), builds, 5)

    assert experiment_of("OFF").blocks == 5
    with pytest.raises(UserError, match=r"/evil is not a level of options\.innodb_doublewrite"):
        experiment_of("/evil")
    for name, odd in (("engine", "MEMORY DATA DIRECTORY='/'"), ("server", "mysql-9.7.4")):
        with pytest.raises(UserError, match=f"is not a level of {name} in the remaining runs"):
            experiment_of("OFF", replace(compared, fixed_factors={**held, name: odd}))
    less = {name: level for name, level in held.items() if name != "engine"}
    with pytest.raises(UserError, match="it is not a level of engine"):
        experiment_of("OFF", replace(compared, fixed_factors=less))


def ends_of(*runs: StoredRun) -> confirm.Builds:
    before, after = (
        point(number, 1.0, level=level, run_id=run.run.id)
        for number, (run, level) in enumerate(
            zip(runs, ("mysql-5.7.22", "mysql-8.0.12"), strict=True)
        )
    )
    return confirm.Builds(before, after)


def test_the_experiment_is_that_of_the_run_with_both_builds() -> None:
    runs = [run_of("r1"), run_of("r2", candidates=("mysql-8.0.12",))]
    found = change(1, 0.9)
    experiment = confirm.confirming_experiment(runs, SPEED, found, ends_of(*runs), 7)
    plan = expand(experiment, seed=1)
    assert [each.levels["server"] for each in plan.treatments] == ["mysql-5.7.22", "mysql-8.0.12"]
    for treatment in plan.treatments:
        assert {**treatment.levels, "server": ""} == {**HELD, "server": ""}
    assert (experiment.compare.base, experiment.blocks) == ("mysql-5.7.22", 7)
    assert (experiment.name, experiment.margin) == ("load-data-confirm", 0.02)
    assert len(plan.trials) == 2 * 7
    assert experiment.workload == runs[0].run.spec.workload.to_json()
    assert experiment.campaign == CampaignPart(confirms=found.id)
    more = confirm.confirming_experiment(runs, SPEED, found, ends_of(*runs), 9)
    assert plan.digest == expand(more, seed=2).digest


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a history of v0 to v79 in two metrics; run-39 and run-40 are in the store."""
    path = tmp_path / "results.sqlite"
    keep(run_of("run-39"), path)
    keep(run_of("run-40", candidates=("mysql-8.0.12",)), path)
    levels = {39: "mysql-5.7.22", 40: "mysql-8.0.12"}
    with Store.open(path) as opened:
        for each in part_of(history([1.0] * 80, series=SPEED)):
            ((series, own),) = each.points
            number = int(own.label[1:])
            own = replace(own, level=levels.get(number, own.level), build=None)
            time = replace(SPEED, id="7117e", metric="time", direction="lower")
            both = history_records.HistoryPart(
                (SPEED, time), each.states, ((series, own), (time.id, own))
            )
            opened.histories.record(both)
    return path


def time_change(index: int, **more: Any) -> ChangeRecord:
    series = replace(SPEED, id="7117e", metric="time")
    return change(index, 1.1, series=series, **more)


def test_blocks_are_added_to_those_of_an_undecided_measurement(store: Path) -> None:
    with Store.open(store) as opened:
        found = change(40, 0.9, series=SPEED)
        first = confirm.planned(opened, found, None)
        assert first.experiment.blocks == confirm.FEWEST_TO_CONFIRM
        assert confirm.planned(opened, found, 11).experiment.blocks == 11
        again = outcomes_of(opened, run_of("c1", ratio=0.98, blocks=4), found)[0]
        assert again.state == "candidate"
        assert (
            confirm.planned(opened, again, None).experiment.blocks == 4 + confirm.FEWEST_TO_CONFIRM
        )


def test_a_change_of_instructions_is_confirmed_by_no_time(store: Path) -> None:
    counts = replace(SPEED, id="c0c0", metric="instructions")
    with Store.open(store) as opened:
        (part,) = part_of(history([1.0], series=counts))
        opened.histories.record(part)
        with pytest.raises(UserError, match="about counted instructions") as refused:
            confirm.planned(opened, change(40, series=counts), None)
    assert "bisect --by instructions" in (refused.value.hint or "")


def test_without_any_of_the_runs_there_is_no_experiment(store: Path) -> None:
    with Store.open(store) as opened:
        # One is enough, also of another point in the same environment.
        opened.remove_runs(["run-39"], is_alive=dead)
        found = change(40, series=SPEED)
        assert confirm.planned(opened, found, None).experiment.source == "run run-40"
        (made,) = opened.histories.read([SPEED.id])
        elsewhere = made.points[60]
        builds = confirm.Builds(replace(elsewhere, run_id="gone"), elsewhere)
        assert [each.run.id for each in confirm.runs_of(opened, made, builds)] == ["run-40"]
        opened.remove_runs(["run-40"], is_alive=dead)
        with pytest.raises(UserError, match="no run of this series that was measured here"):
            confirm.planned(opened, change(40, series=SPEED), None)


def outcomes_of(
    store: Store, measured: StoredRun, found: ChangeRecord, *others: ChangeRecord
) -> list[ChangeRecord]:
    store.histories.keep([found, *others])
    ends = Ends("v39", "v40")
    every = confirm.outcomes(store.histories, found, measured, ends, NOW)
    return [each.change for each in every]


def test_candidates_of_other_metrics_are_settled_by_the_same_trials(store: Path) -> None:
    with Store.open(store) as opened:
        measured = run_of("c1", ratio=0.8, blocks=8)
        one, other = outcomes_of(opened, measured, change(40, series=SPEED), time_change(40))
        assert (one.state, other.state) == ("confirmed", "confirmed")
        assert other.remeasured is not None
        assert other.remeasured.ratio == pytest.approx(1.25, rel=0.02)


@pytest.mark.parametrize(
    "elsewhere",
    [
        [time_change(41)],
        [time_change(40, width=1)],
        [time_change(40, state="withdrawn")],
        [time_change(40, state="confirmed")],
    ],
)
def test_changes_elsewhere_are_not(store: Path, elsewhere: list[ChangeRecord]) -> None:
    with Store.open(store) as opened:
        measured = run_of("c1", ratio=0.8, blocks=8)
        found = outcomes_of(opened, measured, change(40, series=SPEED), *elsewhere)
        assert [each.series for each in found] == [SPEED.id]
