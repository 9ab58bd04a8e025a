"""Test the shipped experiments: each can be planned at every scale with its stated memory."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import databases
from millrace.analysis.explain.decode_observations import loaders
from millrace.app.experiments import CHOOSABLE
from millrace.campaign.inputs import configuration_of
from millrace.campaign.run_records import experiment_spec
from millrace.databases import Family
from millrace.experiment.estimate import FILLING_BYTES_PER_S, unmeasured_s
from millrace.experiment.model import Experiment, Treatment
from millrace.experiment.plan import chosen, expand
from millrace.experiment.read import read
from millrace.quantities import parse_size
from millrace.servers import catalogue
from millrace.studies.lookup import study_names
from millrace.trial.resolved_workload import ResolvedWorkload
from tests.support.experiment_files import SHIPPED, context

DEFAULT_POOL_BYTES = 128 << 20  # every server since MySQL 5.5
FILES = sorted(SHIPPED.parent.glob("*.toml"))
CASES = [
    pytest.param(path, scale, id=f"{path.stem}-{scale}")
    for path in FILES
    for scale in tomllib.loads(path.read_text(encoding="utf-8"))["scales"]
]


def shipped(path: Path, scale: str) -> Experiment:
    known = context(catalogue.entries(), studies=study_names(), collectors=CHOOSABLE)
    return read(path, scale=scale, context=known)


def family_of(treatment: Treatment) -> Family:
    return databases.get(catalogue.entries()[str(treatment.resolved["server"])].family)


def pool_bytes(experiment: Experiment, treatment: Treatment) -> int:
    server = catalogue.entries()[str(treatment.resolved["server"])]
    wanted = configuration_of(experiment, treatment, family=server.family, version=server.version)
    said = [o.value for o in wanted.options if o.name == "innodb_buffer_pool_size"]
    return parse_size(str(said[0])) if said else DEFAULT_POOL_BYTES


@pytest.mark.parametrize(("path", "scale"), CASES)
def test_every_trial_of_a_load_has_a_time_breakdown(path: Path, scale: str) -> None:
    experiment = shipped(path, scale)
    spec = experiment_spec(experiment)
    assert experiment.collectors == CHOOSABLE
    for treatment in expand(experiment, seed=1).treatments:
        kinds = {phase["kind"] for phase in experiment.workload["phases"]}
        if "fill_disk" in kinds:
            continue  # what the server does counts, not its time
        assert "drive" in kinds or loaders(spec.workload, spec.chosen(treatment.levels)) is not None


@pytest.mark.parametrize(("path", "scale"), CASES)
def test_a_plan_can_be_made(path: Path, scale: str) -> None:
    experiment = shipped(path, scale)
    plan = expand(experiment, seed=1)
    assert len(plan.trials) == len(plan.treatments) * (
        experiment.blocks + experiment.profile_blocks
    )
    assert experiment.blocks >= 3


@pytest.mark.parametrize(
    ("path", "scale"),
    [case for case in CASES if "published" not in case.values],  # memory is that of the host
)
def test_tables_fit_the_buffer_pool_as_cache_mode_requires(path: Path, scale: str) -> None:
    experiment = shipped(path, scale)
    for treatment in expand(experiment, seed=1).treatments:
        work = ResolvedWorkload(experiment.workload, chosen(experiment, treatment))
        fits = work.values.get("cache_mode", "any")
        if fits == "any" or str(treatment.resolved.get("engine", "")) == "MEMORY":
            continue
        table_bytes = family_of(treatment).storage.table_bytes(work.checked.volume(work.chosen))
        held = table_bytes / pool_bytes(experiment, treatment)
        assert held < 0.8 if fits == "cached" else held > 1.5, (treatment.label, held)


def test_a_full_disk_is_waited_for_and_stays_full() -> None:
    experiment = shipped(SHIPPED.with_name("full-disk.toml"), "laptop")
    longer = replace(experiment, parameters={**experiment.parameters, "full_s": 60})
    plan = expand(experiment, seed=1)
    found, of_longer = (unmeasured_s(each) for each in (plan, expand(longer, seed=1)))
    assert of_longer - found == pytest.approx(len(plan.trials) * (60 - 15))
    assert found > len(plan.trials) * (15 + 64e6 / FILLING_BYTES_PER_S)


def test_a_transaction_of_many_statements_takes_longer() -> None:
    long, short = (
        shipped(SHIPPED.with_name(f"{name}.toml"), "laptop")
        for name in ("tpcc", "replication-writes")
    )
    seconds = {
        each.name: unmeasured_s(plan) / len(plan.trials) / int(each.parameters["operations"])
        for each in (long, short)
        for plan in [expand(each, seed=1)]
    }
    assert seconds[long.name] > 5 * seconds[short.name]
