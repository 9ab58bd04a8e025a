"""Test plans with concurrent pairs: who shares a pair, and on which half."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases, workloads
from millrace.errors import UserError, ValidationError
from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.estimate import Estimate, Needs, estimate
from millrace.experiment.model import Experiment, PlannedTrial
from millrace.experiment.plan import digest, expand
from millrace.experiment.read import Overrides
from millrace.levels import Level
from tests.unit.cli.called import millrace
from tests.unit.experiment import test_plan
from tests.unit.experiment.files import SMALL, read_text

SYSBENCH = workloads.load("sysbench")  # parsed once

SEEDS = st.integers(0, 2**63 - 1)
HELD = st.dictionaries(
    st.sampled_from(["clients", "transport", "options.sync_binlog"]),
    st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
)

FILE = """\
name = "beside"
workload = "sysbench"
concurrent = true
seed = 1

[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]
clients = [1, 4]

[compare]
base = "mysql-5.6.24"

[parameters]
table_size = 1_000
"""


def experiment(held: dict[str, Any] | None = None, **changes: Any) -> Experiment:
    factors: dict[str, list[Level]] = {"server": ["base", "candidate"], **(held or {})}
    made = test_plan.experiment(factors, workload=SYSBENCH, parameters={})
    return replace(made, **{"concurrent": True, **changes})


def pairs_of(trials: tuple[PlannedTrial, ...]) -> list[tuple[PlannedTrial, PlannedTrial]]:
    return list(zip(trials[::2], trials[1::2], strict=True))


@given(HELD, SEEDS, st.integers(1, 7))
def test_pairs_stand_together_and_each_is_once_in_a_block(
    held: dict[str, list[Level]], seed: int, blocks: int
) -> None:
    plan = expand(experiment(held, blocks=blocks), seed=seed)
    counts = Counter((trial.block, trial.treatment.id) for trial in plan.trials)
    assert set(counts.values()) == {1}
    assert len(counts) == blocks * len(plan.treatments)
    for first, second in pairs_of(plan.trials):
        assert (first.side, second.side) == (0, 1)
        assert first.block == second.block
        assert {first.treatment.levels["server"], second.treatment.levels["server"]} == {
            "base",
            "candidate",
        }
        assert all(first.treatment.levels[name] == second.treatment.levels[name] for name in held)
    assert [trial.position for trial in plan.trials] == list(range(len(plan.trials)))


@given(HELD, SEEDS, st.integers(1, 9))
def test_halves_are_balanced_wherever_a_run_stops(
    held: dict[str, list[Level]], seed: int, blocks: int
) -> None:
    plan = expand(experiment(held, blocks=blocks), seed=seed)
    sides = defaultdict(list)
    for trial in plan.trials:
        sides[trial.treatment.id].append(trial.side)
    for of_one in sides.values():
        couples = zip(of_one[::2], of_one[1::2], strict=False)
        assert all({first, second} == {0, 1} for first, second in couples)
        assert abs(2 * of_one.count(0) - blocks) <= 1


@given(SEEDS)
def test_more_blocks_leave_the_earlier_ones_and_their_halves(seed: int) -> None:
    fewer = expand(experiment({"clients": [1, 2, 4]}, blocks=3), seed=seed)
    more = expand(experiment({"clients": [1, 2, 4]}, blocks=6), seed=seed)
    assert more.trials[: len(fewer.trials)] == fewer.trials


def test_halves_and_order_are_drawn() -> None:
    plans = [expand(experiment({"clients": [1, 4]}, blocks=2), seed=seed) for seed in range(40)]
    firsts = [plan.trials[0].treatment.levels for plan in plans]
    counts = Counter((levels["server"], levels["clients"]) for levels in firsts)
    assert len(counts) == 4
    assert min(counts.values()) >= 3
    # The half of a pair's base in one pair of blocks does not predict the next.
    base_first = [
        [p[0].treatment.levels["server"] == "base" for p in pairs_of(plan.trials)][::2]
        for plan in (expand(experiment(blocks=40), seed=seed) for seed in range(4))
    ]
    assert any(a == b for run in base_first for a, b in pairwise(run))
    assert any(a != b for run in base_first for a, b in pairwise(run))


def test_concurrent_is_another_digest_of_the_same_treatments() -> None:
    made = experiment()
    in_turns = replace(made, concurrent=False)
    assert digest(made) != digest(in_turns)
    assert expand(made, seed=1).treatments == expand(in_turns, seed=1).treatments


def test_there_are_no_controls_and_profiled_trials_are_alone() -> None:
    plan = expand(experiment(blocks=12, profile_blocks=2), seed=1)
    assert with_aa_trials(plan) == plan
    profiled = [trial for trial in plan.trials if trial.purpose == "profile"]
    assert len(profiled) == 4
    assert {trial.side for trial in profiled} == {None}
    assert sum(trial.time_weight for trial in plan.trials) == 12 + 4


def test_a_file_or_a_request_says_it(tmp_path: Path) -> None:
    assert read_text(tmp_path, FILE).concurrent
    in_turns = read_text(tmp_path, FILE, overrides=Overrides(concurrent=False))
    assert not in_turns.concurrent
    assert not read_text(tmp_path, SMALL).concurrent
    with pytest.raises(ValidationError, match="expected true or false"):
        read_text(tmp_path, FILE.replace("= true", '= "yes"'))


def test_a_candidate_of_several_is_chosen_by_request(tmp_path: Path) -> None:
    text = FILE.replace('"mysql-5.7.22"]', '"mysql-5.7.22", "mysql-8.0.12"]')
    with pytest.raises(ValidationError, match="3 levels") as refused:
        expand(read_text(tmp_path, text), seed=1)
    assert "--candidate" in str(refused.value)
    one = read_text(tmp_path, text, overrides=Overrides(candidate="mysql-8.0.12"))
    assert one.factors[0].levels == ("mysql-5.6.24", "mysql-8.0.12")
    assert len(expand(one, seed=1).treatments) == 4
    for wrong in ("mysql-5.6.24", "mysql-9"):
        with pytest.raises(UserError, match="no level of server") as unknown:
            read_text(tmp_path, text, overrides=Overrides(candidate=wrong))
        assert unknown.value.hint == "one of: mysql-5.7.22, mysql-8.0.12"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("operations = 1000", "parameters.operations"),
        ('warmup = "steady"', "parameters.warmup"),
        ('client_cpus = "0"', "parameters.client_cpus"),
    ],
)
def test_a_pair_is_measured_for_the_same_time(tmp_path: Path, line: str, place: str) -> None:
    made = read_text(tmp_path, f"{FILE}{line}\n")
    expand(replace(made, concurrent=False), seed=1)
    with pytest.raises(ValidationError) as refused:
        expand(made, seed=1)
    assert [mistake.where for mistake in refused.value.diagnostics] == [place]
    assert "--interleaved" in (refused.value.hint or "")


def test_loads_take_as_long_as_they_take(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="load-data measures until the work is done"):
        expand(read_text(tmp_path, SMALL, overrides=Overrides(concurrent=True)), seed=1)


def test_the_plan_command_shows_halves_and_refuses(tmp_path: Path) -> None:
    file = tmp_path / "beside.toml"
    file.write_text(FILE, encoding="utf-8")
    shown = millrace("plan", file, "--blocks", "2", "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["design"]["concurrent"] is True
    assert [trial["side"] for trial in document["trials"]] == [0, 1] * 4
    text = millrace("plan", file)
    assert "base and candidate side by side, each on half of the CPUs" in text.stdout
    assert "first half" in text.stdout
    small = tmp_path / "small.toml"
    small.write_text(SMALL, encoding="utf-8")
    refused = millrace("plan", small, "--concurrent")
    assert refused.returncode == 2
    assert "small.toml: 1 mistake" in refused.stderr
    assert "--interleaved" in refused.stderr


def test_a_pair_takes_half_the_time_and_the_disk_of_two(tmp_path: Path) -> None:
    def at(**overrides: Any) -> Estimate:
        plan = expand(read_text(tmp_path, FILE, overrides=Overrides(**overrides)), seed=1)
        table_bytes = databases.get("mysql").storage.table_bytes
        same = Needs(1_000_000, binary_log=False, table_bytes=table_bytes)
        needs = {each.id: same for each in plan.treatments}
        return estimate(plan, needs=needs, host_free_bytes=0)

    beside, in_turns = at(), at(concurrent=False)
    assert beside.n_trials == in_turns.n_trials
    assert beside.time_s == pytest.approx(in_turns.time_s / 2, rel=1e-3)  # but for the snapshots
    assert beside.least_time_s == pytest.approx(in_turns.least_time_s / 2, rel=1e-3)
    assert beside.peak_disk_bytes == 2 * in_turns.peak_disk_bytes
    assert " and " in beside.peak_treatment
    assert " and " not in in_turns.peak_treatment
