"""Test plans of rounds in slices: who shares a round, in which slot, and what is refused."""

import itertools
import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases, workloads
from millrace.errors import UserError, ValidationError
from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.estimate import Needs, estimate
from millrace.experiment.groups import fixed_factors, measured_together
from millrace.experiment.model import Experiment, slices_possible
from millrace.experiment.plan import digest, expand, without_slices
from millrace.experiment.read import Overrides
from millrace.experiment.rounds import MOST_SLOTS
from millrace.workloads.defaults import interleaved
from tests.support import experiment_files as files
from tests.support.called import millrace
from tests.support.experiment_files import SMALL, experiment_text, parsed, places_refused, written
from tests.unit.experiment import test_plan
from tests.unit.experiment.test_plan import Levels

SYSBENCH = workloads.load("sysbench")  # parsed once

SEEDS = st.integers(0, 2**63 - 1)
FIXED = st.dictionaries(
    st.sampled_from(["clients", "transport", "options.sync_binlog"]),
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
)

FILE = experiment_text(
    "sysbench",
    design="slices",
    seed=1,
    factors={"test": ["point-query"], "clients": [1, 4]},
    parameters={"table_size": 1000},
)


def experiment(servers: int = 2, fixed: dict[str, Any] | None = None, **changes: Any) -> Experiment:
    factors: Levels = {
        "server": [f"server-{number}" for number in range(servers)],
        "test": ["point-query"],
        **(fixed or {}),
    }
    made = test_plan.experiment(factors, workload=SYSBENCH, parameters={})
    return replace(made, **{"slices": True, "requires_slices": True, **changes})


@given(st.integers(2, 8), FIXED, SEEDS, st.integers(1, 9))
def test_a_round_has_each_server_of_a_group_once(
    servers: int, fixed: Levels, seed: int, blocks: int
) -> None:
    plan = expand(experiment(servers, fixed, blocks=blocks), seed=seed)
    counts = Counter((trial.block, trial.treatment.id) for trial in plan.trials)
    assert set(counts.values()) == {1}
    assert len(counts) == blocks * len(plan.treatments)
    for first in range(0, len(plan.trials), servers):
        one_round = plan.trials[first : first + servers]
        assert [trial.slot for trial in one_round] == list(range(servers))
        assert len({trial.block for trial in one_round}) == 1
        for name in fixed:
            assert len({trial.treatment.levels[name] for trial in one_round}) == 1
    assert [trial.position for trial in plan.trials] == list(range(len(plan.trials)))


@given(st.integers(2, 8), SEEDS, st.integers(1, 20))
def test_slots_are_balanced_wherever_a_run_stops(servers: int, seed: int, blocks: int) -> None:
    plan = expand(experiment(servers, blocks=blocks), seed=seed)
    slots = defaultdict(list)
    for trial in plan.trials:
        slots[trial.treatment.id].append(trial.slot)
    for of_one in slots.values():
        for first in range(0, blocks - servers + 1, servers):
            assert set(of_one[first : first + servers]) == set(range(servers))


@given(SEEDS)
def test_more_blocks_leave_the_earlier_ones(seed: int) -> None:
    fewer = expand(experiment(3, {"clients": [1, 2]}, blocks=3), seed=seed)
    more = expand(experiment(3, {"clients": [1, 2]}, blocks=7), seed=seed)
    assert more.trials[: len(fewer.trials)] == fewer.trials


def test_slices_are_another_digest_of_the_same_treatments() -> None:
    made = experiment()
    interleaved = without_slices(made)
    assert digest(made) != digest(interleaved)
    assert expand(made, seed=1).treatments == expand(interleaved, seed=1).treatments


def test_profiled_trials_are_rounds_of_their_own_when_clients_take_turns() -> None:
    plan = with_aa_trials(expand(experiment(blocks=1, profile_blocks=2), seed=1))
    rounds = list(measured_together(plan.trials, plan.experiment.compared_factors))
    purposes = [[trial.purpose for trial in trials] for trials in rounds]
    assert purposes == [["measure"] * 2, ["profile"] * 2, ["profile"] * 2]
    assert {trial.slot for trials in rounds for trial in trials} == {0, 1}


def test_aa_trials_leave_the_slots_of_profiled_trials_unchanged() -> None:
    planned = expand(experiment(blocks=12, profile_blocks=12), seed=1)
    with_aa = with_aa_trials(planned)
    assert any(trial.purpose == "aa" for trial in with_aa.trials)
    slots = [
        [(trial.id, trial.slot) for trial in plan.trials if trial.purpose == "profile"]
        for plan in (planned, with_aa)
    ]
    assert slots[0] == slots[1]


def test_profiled_loads_are_alone() -> None:
    made = parsed(SMALL)
    plan = expand(replace(made, profile_blocks=1), seed=1)
    slots = {(trial.purpose, trial.slot is None) for trial in plan.trials}
    assert slots == {("measure", False), ("profile", True)}


@given(st.integers(2, 8), FIXED, SEEDS)
def test_a_round_with_an_aa_trial_has_one_more_server(
    servers: int, fixed: Levels, seed: int
) -> None:
    made = experiment(servers, fixed, blocks=12)
    without = expand(made, seed=seed)
    plan = with_aa_trials(without)
    aa_trials = [trial for trial in plan.trials if trial.purpose == "aa"]
    assert bool(aa_trials) == (servers < MOST_SLOTS)
    assert all(trial.treatment.levels["server"] == "server-0" for trial in aa_trials)
    rounds = defaultdict(list)
    for trial in plan.trials:
        rounds[trial.block, fixed_factors(trial.treatment, "server")].append(trial)
    assert [trial for one_round in rounds.values() for trial in one_round] == list(plan.trials)
    measured = iter(without.trials)
    for one_round in rounds.values():
        assert [trial.slot for trial in one_round] == list(range(len(one_round)))
        for trial in one_round:
            if trial.purpose == "measure":
                assert trial.id == next(measured).id


@given(SEEDS, st.integers(1, 4))
def test_trials_of_a_group_are_neighbours_in_all_designs(seed: int, servers: int) -> None:
    made = without_slices(experiment(servers, {"clients": [1, 2, 3]}, blocks=6))
    plan = with_aa_trials(expand(made, seed=seed))
    groups = [(trial.block, fixed_factors(trial.treatment, "server")) for trial in plan.trials]
    assert len([*itertools.groupby(groups)]) == 6 * 3
    assert [trial.slot for trial in plan.trials] == [None] * len(plan.trials)


BY_DEFAULT = FILE.replace('design = "slices"\n', "") + 'cache_mode = "cached"\n'


def test_slices_are_the_default_of_groups_where_they_are_valid() -> None:
    mixed = BY_DEFAULT.replace('"point-query"', '"point-query", "update-index"')
    made = parsed(mixed)
    assert (made.slices, made.requires_slices) == (True, False)
    assert made.treatments_at_once == 2
    plan = with_aa_trials(expand(replace(made, blocks=12), seed=1))
    sliced = {trial.treatment.levels["test"] for trial in plan.trials if trial.slot is not None}
    alone = {trial.treatment.levels["test"] for trial in plan.trials if trial.slot is None}
    assert (sliced, alone) == ({"point-query"}, {"update-index"})
    of_aa_trials = {t.treatment.levels["test"] for t in plan.trials if t.purpose == "aa"}
    assert of_aa_trials == {"point-query", "update-index"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('cache_mode = "cached"\n', ""),  # nobody says that no client waits for the disk
        ('"point-query"', '"update-index"'),
        ('"point-query"]\nclients = [1, 4]', '"insert"]\nengine = ["RocksDB"]'),
        ("seed = 1", 'design = "interleaved"'),
        (', "mysql-5.7.22"]', "]"),
        ('"point-query"]\nclients = [1, 4]', '"insert"]\ncompression = ["row"]'),
    ],
)
def test_all_else_is_measured_as_without_slices(old: str, new: str) -> None:
    made = parsed(BY_DEFAULT.replace(old, new))
    assert not made.slices
    assert "throughput_with_stalls" not in made.checked_workload.metrics
    assert not parsed(BY_DEFAULT, overrides=Overrides(interleaved=True)).slices


@pytest.mark.parametrize(
    ("test", "engine"),
    [("insert", "innodb"), ("point-query", "RocksDB"), ("point-query", "MyISAM")],
)
def test_other_engines_have_slices_of_reads(test: str, engine: str) -> None:
    factors = f'"{test}"]\nengine = ["{engine}"]'
    text = BY_DEFAULT.replace('"point-query"]\nclients = [1, 4]', factors)
    assert parsed(text).slices


def test_servers_that_millrace_does_not_start_have_no_slices() -> None:
    attached = replace(files.CONTEXT, attached=("mysql-5.7.22",))
    assert parsed(BY_DEFAULT).slices
    assert not parsed(BY_DEFAULT, context=attached).slices


def test_a_round_takes_the_time_of_one_of_its_trials() -> None:
    plan = expand(experiment(3, blocks=4, profile_blocks=1), seed=1)
    assert sum(map(plan.share_of_time, plan.trials)) == pytest.approx(4 + 1)


def test_slices_follow_the_file_or_the_option() -> None:
    assert parsed(FILE).slices
    assert not parsed(FILE, overrides=Overrides(interleaved=True)).slices
    assert not parsed(SMALL, overrides=Overrides(interleaved=True)).slices
    with pytest.raises(UserError, match="--slices and --interleaved exclude each other"):
        parsed(FILE, overrides=Overrides(slices=True, interleaved=True))
    with pytest.raises(ValidationError, match='"interleaved" or "slices"'):
        parsed(FILE.replace('"slices"', '"slice"'))


def test_throughput_is_that_of_slices_and_the_plain_one_stands_beside() -> None:
    metrics = parsed(FILE).checked_workload.metrics
    assert metrics["throughput"].denominator == ["measure_trimmed_s"]
    assert metrics["throughput"].primary
    assert metrics["throughput_with_stalls"].denominator == ["measure_duration_s"]
    assert not metrics["throughput_with_stalls"].primary
    assert "client_cpu" not in metrics


def test_campaigns_about_a_run_measure_interleaved() -> None:
    in_slices = parsed(FILE)
    turns = replace(in_slices, workload=interleaved(in_slices.workload)).checked_workload
    before = parsed(FILE, overrides=Overrides(interleaved=True)).checked_workload
    assert turns.metrics == {
        name: metric for name, metric in before.metrics.items() if name != "client_cpu"
    }


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"point-query"', '"update-index"', "factors.test"),
        ("table_size", "operations = 9\ntable_size", "parameters.operations"),
        ("table_size", 'warmup = "steady"\ntable_size', "parameters.warmup"),
        ("table_size", "threads = 2\ntable_size", "parameters.threads"),
        ("table_size", 'cache_mode = "io_bound"\ntable_size', "parameters.cache_mode"),
        ("clients = [1, 4]", "rate = [10]", "parameters.rate"),
        (', "mysql-5.7.22"]', "]", "factors.server"),
        ('base = "mysql-5.6.24"', 'factor = "clients"\nbase = 1', "compare.factor"),
        ("table_size", "time_s = 1001\ntable_size", "parameters.time_s"),
    ],
)
def test_what_slices_cannot_measure_is_refused(old: str, new: str, place: str) -> None:
    made = parsed(FILE.replace(old, new))
    assert places_refused(made) == [place]
    with pytest.raises(ValidationError) as refused:
        expand(made, seed=1)
    assert "without --slices" in (refused.value.hint or "")


def test_loads_of_tables_that_fit_have_slices_by_default() -> None:
    made = parsed(SMALL)
    assert (made.slices, made.requires_slices) == (True, False)
    assert {trial.slot for trial in expand(made, seed=1).trials} == {0, 1}
    metrics = made.checked_workload.metrics
    assert metrics["throughput"].denominator == ["load_duration_s", "finish_duration_s"]
    assert metrics["time"].numerator == ["load_duration_s", "finish_duration_s"]
    without_stalls = metrics["throughput_without_stalls"]
    assert without_stalls.denominator == ["load_trimmed_s", "finish_duration_s"]
    assert (metrics["throughput"].primary, without_stalls.primary) == (True, False)
    assert made.checked_workload.measured.timed == ("load", "finish")
    before = parsed(SMALL, overrides=Overrides(interleaved=True)).workload
    assert interleaved(made.workload) == before


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("rows = 1000", "rows = 600_000", "parameters.rows"),
        ("\n[compare]", 'load_mode = ["local", "server_file"]\n[compare]', "factors.load_mode"),
        ("\n[compare]", 'engine = ["InnoDB", "MyISAM"]\n[compare]', "factors.engine"),
        ('base = "mysql-5.6.24"', 'factor = "load_mode"\nbase = "local"', "compare.factor"),
        ('"load-data"', '"insert-methods"', "workload"),
    ],
)
def test_loads_that_do_not_take_turns_are_interleaved(old: str, new: str, place: str) -> None:
    text = SMALL.replace(old, new)
    if place == "compare.factor":
        text = text.replace("\n[compare]", 'load_mode = ["local", "server_file"]\n[compare]')
    if place == "workload":
        text = text.replace("rows = 1000\n", "")
    made = parsed(text)
    if made.slices:  # in some groups
        slots = [trial.slot for trial in expand(made, seed=1).trials]
        assert None in slots
    asked = parsed(text, overrides=Overrides(slices=True))
    assert place in places_refused(asked)


@pytest.mark.parametrize(
    ("factor", "more"),
    [
        ('options.innodb_buffer_pool_size = ["16M", "1G"]', ""),
        (
            'configuration = ["small"]',
            '[configurations.small]\noptions.innodb_buffer_pool_size = "16M"\n',
        ),
    ],
)
def test_loads_into_a_small_buffer_pool_are_interleaved(factor: str, more: str) -> None:
    text = SMALL.replace("rows = 1000", "rows = 200_000").replace(
        "\n[compare]", f"{factor}\n[compare]"
    )
    made = parsed(f"{text}{more}")
    assert not made.slices
    with pytest.raises(ValidationError) as refused:
        expand(parsed(f"{text}{more}", overrides=Overrides(slices=True)), seed=1)
    (mistake,) = refused.value.diagnostics
    assert mistake.where == "parameters.rows"
    assert "half of the smallest buffer pool" in mistake.message
    assert parsed(f"{text}{more}".replace("16M", "64M")).slices


@pytest.mark.parametrize("test", ["oltp_read_only", "update-nonindex", "insert"])
def test_clients_read_or_one_of_them_writes_rows_without_changing_indexes(test: str) -> None:
    made = experiment(fixed={"test": [test]})
    assert {trial.slot for trial in expand(made, seed=1).trials} == {0, 1}


@pytest.mark.parametrize(
    ("test", "clients", "place"),
    [
        ("oltp_read_write", 1, "factors.test"),
        ("update-index", 1, "factors.test"),
        ("delete", 1, "factors.test"),
        ("update-nonindex", 2, "factors.clients"),
    ],
)
def test_writes_that_disturb_the_others_are_refused(test: str, clients: int, place: str) -> None:
    assert places_refused(experiment(fixed={"test": [test], "clients": [clients]})) == [place]


def test_a_side_rests_for_no_longer_than_it_works() -> None:
    half = experiment(fixed={"slowdown": ["none", "cpu=50%"]})
    assert {trial.slot for trial in expand(half, seed=1).trials} == {0, 1}
    more = experiment(fixed={"slowdown": ["none", "cpu=50.1%"]})
    assert places_refused(more) == ["factors.slowdown"]
    with pytest.raises(ValidationError, match="at most 50 %"):
        expand(more, seed=1)


def test_plan_command_shows_slices(tmp_path: Path) -> None:
    file = written(tmp_path, FILE.replace('design = "slices"\n', ""))
    shown = millrace("plan", file, "--blocks", "2", "--slices", "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["design"]["slices"] is True
    assert {trial["slot"] for trial in document["trials"]} == {0, 1}
    assert "in slices of some milliseconds" in millrace("plan", file, "--slices").stdout
    assert "in slices" not in millrace("plan", file).stdout


def test_a_calibration_in_slices_slows_no_load_down(tmp_path: Path) -> None:
    file = written(tmp_path, f'design = "slices"\n{SMALL}')
    refused = millrace("calibrate", file, "--slowdown", "cpu")
    assert refused.returncode == 2
    assert "--slowdown none" in refused.stderr


def test_all_servers_of_a_group_share_the_disk() -> None:
    plan = expand(experiment(3), seed=1)
    table_bytes = databases.get("mysql").storage.table_bytes
    same = Needs(1_000_000, binary_log=False, table_bytes=table_bytes)
    needs = {each.id: [same] for each in plan.treatments}
    at_once = estimate(plan, needs=needs, host_free_bytes=0)
    interleaved = expand(without_slices(plan.experiment), seed=1)
    alone = estimate(interleaved, needs=needs, host_free_bytes=0)
    assert at_once.peak_disk_bytes == 3 * alone.peak_disk_bytes
    assert at_once.time_s < alone.time_s  # all settle at the same time


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        (files.DRIVEN, True),
        # Of one of the tests.
        (files.DRIVEN.replace('"point-query"', '"point-query", "update-index"'), True),
        (files.DRIVEN.replace('"point-query"', '"update-index"'), False),
        (files.DRIVEN.replace("[compare]", "rate = [100]\n[compare]"), False),
        (files.DRIVEN + 'cache_mode = "cached"\n', False),  # they are in slices
        (files.DRIVEN + 'cache_mode = "io_bound"\n', False),
        (f'design = "slices"\n{files.DRIVEN}', False),
        (f'design = "interleaved"\n{files.DRIVEN}', False),
        (SMALL, False),
    ],
)
def test_note_names_groups_that_cached_tables_would_allow_in_slices(
    text: str, *, possible: bool
) -> None:
    assert (slices_possible(parsed(text)) is not None) is possible


def test_plan_explains_missing_slices_unless_interleaved(tmp_path: Path) -> None:
    file = written(tmp_path, files.DRIVEN)
    store = ("--store", str(tmp_path / "results.sqlite"))
    said = "note: trials are interleaved. If the tables fit"
    assert said in millrace("plan", str(file), *store).stderr
    assert said not in millrace("plan", str(file), "--interleaved", *store).stderr
