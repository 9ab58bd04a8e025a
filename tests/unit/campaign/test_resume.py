"""Test which run a command resumes, and what a new one learns of earlier ones."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.campaign import resume
from millrace.campaign.resume import RunSelection, select_run
from millrace.campaign.run_records import begin_run, stored_trial_id
from millrace.experiment.plan import expand
from millrace.experiment.read import Overrides
from millrace.model.host_facts import HostFacts
from millrace.model.instance_facts import InstanceFacts
from millrace.model.run_spec import CampaignPart, ConfigurationDefinition, Design
from millrace.model.servers import BuildFacts, InstalledServer, build_facts
from millrace.quantities import utc_now
from millrace.servers import added
from millrace.store.records import AttemptResult, HostRecord, InstanceRecord, Owner, ServerRecord
from millrace.store.store import Store
from tests.support import small_servers
from tests.support.experiment_files import context, experiment_text, read_text
from tests.support.laboratory import BASE, LIKE, SLOW, Laboratory, lab_text
from tests.support.laboratory import HOST as LAB_HOST

LOADS: dict[str, Any] = {"name": "which", "title": "Which run?", "workload": "load-data"}
UPDATES: dict[str, Any] = {
    "name": "which",
    "workload": "sysbench",
    "factors": {"test": ["update-nonindex"]},
    "parameters": {"table_size": 10, "cache_mode": "cached"},
}
HOST = HostRecord(
    "h1",
    HostFacts.model_validate(
        {"kernel": {"release": "6.1"}, "memory": {"total_bytes": 16}, "load": {"average_1min": 1}}
    ),
)
NAMED = context(["a", "b", "c"])
UNKNOWN = ServerRecord("unknown", "mysql", "5.7", "5.7", BuildFacts(attached=False))
VERSIONS = {"millrace": "1", "load_generator": "1", "data": "nodes-1"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as opened:
        yield opened


@dataclass(frozen=True)
class Command:
    """A command that can be repeated, with changes in between."""

    store: Store
    directory: Path

    def __call__(
        self,
        file: Mapping[str, Any] = LOADS,
        *,
        servers: tuple[str, ...] = ("a", "b"),
        base: str = "a",
        rows: int = 10,
        blocks: int | None = None,
        limit: int | None = None,
        seed: int | None = None,
        begin_blocks: int | None = None,
        without: str = "",
        host: HostRecord = HOST,
        versions: dict[str, str] = VERSIONS,
        fresh: bool = False,
    ) -> RunSelection:
        """Return the command's selection and begin it, as a run would.

        It begins all of it, or a number of blocks, the later ones without a server.
        """
        of_run = {"design": "interleaved", "blocks": 3, "parameters": {"rows": rows}, **file}
        text = experiment_text(servers=servers, compare=("server", base), **of_run)
        overrides = Overrides(blocks=blocks, max_blocks=limit, seed=seed)
        chosen = select_run(
            self.store,
            read_text(self.directory, text, overrides=overrides, context=NAMED),
            host=host,
            versions=versions,
            command="millrace run which.toml",
            fresh=fresh,
        )
        begun = [
            trial
            for trial in chosen.plan.trials
            if begin_blocks is None or trial.block < begin_blocks
            if trial.block == 0 or trial.treatment.levels["server"] != without
        ]
        run = chosen.run if begin_blocks is None else replace(chosen.run, blocks=begin_blocks)
        plan = replace(chosen.plan, trials=tuple(begun))
        begin_run(self.store, run, plan, chosen.extension)
        return chosen


@pytest.fixture
def command(store: Store, tmp_path: Path) -> Command:
    return Command(store, tmp_path)


def test_the_same_command_continues(command: Command) -> None:
    first, again = command(), command()
    assert again.run.id == first.run.id
    assert again.plan == first.plan
    assert again.note is None


def test_an_imported_run_is_not_continued(command: Command, store: Store, tmp_path: Path) -> None:
    theirs = command(seed=1)
    store.export_runs([theirs.run.id], tmp_path / "runs.zip")
    with Store.open(tmp_path / "other.sqlite") as other:
        other.import_file(tmp_path / "runs.zip")
        elsewhere = Command(other, tmp_path)
        own = elsewhere(seed=1)
        assert own.run.id != theirs.run.id
        assert own.note == f"run {theirs.run.id} was imported and is not resumed, a new one starts"
        again = elsewhere(seed=1)
    assert (again.run.id, again.note) == (own.run.id, None)


@pytest.mark.parametrize(
    "changed",
    [
        {"servers": ("a", "b", "c")},
        {"servers": ("a", "c")},
        {"rows": 11},
        {"fresh": True},
        {"seed": 12345},
    ],
)
def test_something_else_is_another_run(command: Command, changed: dict[str, Any]) -> None:
    first = command(seed=1)
    other = command(**{"seed": 1, **changed})
    assert other.run.id != first.run.id
    if not changed.get("fresh"):
        assert command(seed=1).run.id == first.run.id


def test_a_run_is_found_behind_a_newer_one_of_another_file(command: Command) -> None:
    first = command()
    command(servers=("a", "b", "c"))
    assert command().run.id == first.run.id


def test_another_base_is_a_matter_of_the_report(command: Command) -> None:
    assert command(base="b").run.id == command(base="a").run.id


def test_more_blocks_extend_a_run_and_that_is_recorded(command: Command, store: Store) -> None:
    first = command()
    more = command(blocks=5)
    assert more.run.id == first.run.id
    assert more.plan.trials[: len(first.plan.trials)] == first.plan.trials
    stored = store.load_run(first.run.id).run
    assert stored.blocks == 5
    assert [each.blocks for each in stored.spec.extensions or ()] == [5]
    assert command(blocks=4).run.blocks == 5
    assert command(blocks=5).run.id == first.run.id


@pytest.mark.parametrize(
    ("host", "versions", "word"),
    [
        (replace(HOST, facts=HOST.facts.replace(kernel={"release": "6.2"})), VERSIONS, "kernel"),
        (replace(HOST, facts=HOST.facts.replace(memory={"total_bytes": 8})), VERSIONS, "memory"),
        (HOST, {**VERSIONS, "data": "nodes-2"}, "data"),
        (HOST, {**VERSIONS, "load_generator": "2"}, "load generator"),
    ],
)
def test_a_host_that_is_not_what_it_was_begins_a_new_run(
    command: Command, host: HostRecord, versions: dict[str, str], word: str
) -> None:
    first = command()
    other = command(host=host, versions=versions)
    assert other.run.id != first.run.id
    assert other.note is not None
    assert first.run.id in other.note
    assert word in other.note


def test_a_run_is_resumed_in_its_environment_behind_a_newer_one_of_another(
    command: Command,
) -> None:
    first = command()
    other_kernel = replace(HOST, facts=HOST.facts.replace(kernel={"release": "6.2"}))
    second = command(host=other_kernel)
    again = command()
    assert (again.run.id, again.note) == (first.run.id, None)
    assert command(host=other_kernel).run.id == second.run.id
    third = command(versions={**VERSIONS, "data": "nodes-2"})
    assert third.is_new
    assert str(third.note).count("is not resumed, a new one starts") == 1  # of the newest alone


def test_load_comes_and_goes_in_the_same_run(command: Command) -> None:
    first = command()
    busy = replace(HOST, facts=HOST.facts.replace(load={"average_1min": 9}))
    assert command(host=busy, versions={**VERSIONS, "millrace": "2"}).run.id == first.run.id


def test_a_limit_that_is_another_continues_and_is_recorded_with_the_next_block(
    command: Command,
) -> None:
    first = command(limit=10)
    assert first.run.design == Design(kind="sequential", blocks=10)
    same, more = command(limit=10), command(limit=20)
    assert {same.run.id, more.run.id} == {first.run.id}
    assert same.extension is None
    assert more.extension is not None
    assert more.extension.design == Design(kind="sequential", blocks=20)


def test_an_exact_number_continues_what_was_sequential(command: Command, store: Store) -> None:
    first = command(limit=10)
    more = command(blocks=12)
    assert more.run.id == first.run.id
    assert store.find_run(first.run.id).design == Design(kind="fixed", blocks=12)


def test_dropped_trials_are_not_added_later(command: Command, store: Store) -> None:
    first = command(limit=10, begin_blocks=3, without="b")
    more = command(blocks=5)
    assert more.run.id == first.run.id
    kept = {(t.block, t.treatment.levels["server"]) for t in more.plan.trials}
    assert {block for block, server in kept if server == "b"} == {0, 3, 4}
    assert {block for block, server in kept if server == "a"} == {0, 1, 2, 3, 4}
    rows = [trial.block for trial in store.load_run(first.run.id).trials]
    assert len(rows) == len(more.plan.trials)


@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_had_no_controls_gets_one_with_its_next_blocks(
    command: Command, seed: int
) -> None:
    command(blocks=3, seed=seed)
    more = command(blocks=6, seed=seed)
    (block,) = {trial.block for trial in more.plan.trials if trial.purpose == "aa"}
    assert block in (3, 4)
    again = command(blocks=6, seed=seed)
    assert again.plan == more.plan


def ran(store: Store, chosen: RunSelection, name: str, instance: InstanceRecord) -> None:
    """Store a finished trial that ran the server of this name."""
    trial = next(each for each in chosen.plan.trials if each.treatment.levels["server"] == name)
    attempt = store.claim(
        stored_trial_id(chosen.run, trial),
        Owner("h1", "boot", 1, 1),
        utc_now(),
        is_alive=lambda _: False,
    )
    assert attempt is not None
    store.finish(attempt, AttemptResult("finished", instances=(instance,)), utc_now())


@pytest.mark.parametrize("name", ["mysqld", "libown.so.1"])
def test_a_build_that_was_changed_is_another_run(
    command: Command, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    library = small_servers.library(tmp_path / "vendor/lib/libown.so.1")
    tree = small_servers.tree(tmp_path / "vendor", "5.7.99", str(library))
    archive = small_servers.tarball(tree, tmp_path / "vendor.tar.gz")
    server = added.add_tarball("a", "mysql", str(archive))
    first = command()
    assert isinstance(server, InstalledServer)
    of = ServerRecord("a", "mysql", server.version, server.version, build_facts(server))
    ran(store, first, "a", InstanceRecord("server", of, "default", (), {}))
    assert command().run.id == first.run.id
    file = next(Path(path) for path in server.files if Path(path).name == name)
    with file.open("ab") as opened:
        opened.write(b"more")
    other = command()
    assert other.run.id != first.run.id
    assert other.note is not None
    assert f"a was changed: {file}" in other.note


@pytest.mark.parametrize(("place", "resumed"), [("warm", True), ("cold", False)])
def test_a_run_that_left_files_on_the_disk_is_not_resumed(
    command: Command, store: Store, place: str, resumed: bool
) -> None:
    """The experiment leaves that to millrace, and another version restored them to the disk."""
    first = command(UPDATES)
    facts = InstanceFacts.model_validate({"page_cache": place})
    ran(store, first, "a", InstanceRecord("server", UNKNOWN, "default", (), {}, facts))
    other = command(UPDATES)
    assert (other.run.id == first.run.id) == resumed
    said = "page_cache was cold for a · update-nonindex · default and is warm"
    assert resumed or said in str(other.note)


def test_a_run_that_restored_nothing_is_resumed(command: Command, store: Store) -> None:
    first = command(UPDATES)
    ran(store, first, "a", InstanceRecord("server", UNKNOWN, "default", (), {}))
    assert command(UPDATES).run.id == first.run.id


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    return Laboratory(tmp_path, monkeypatch)


def test_the_first_run_of_an_experiment_has_none(lab: Laboratory) -> None:
    found = lab.run(blocks=3)
    assert found.run.spec.earlier_noise == ()
    (comparison,) = compare_run(found).comparisons()
    assert comparison.estimate is not None
    assert comparison.estimate.borrowed == 0


def test_each_run_keeps_the_noise_of_earlier_runs(lab: Laboratory) -> None:
    runs = []
    for lab.seed in range(4):
        runs.append(lab.run(blocks=4, fresh=True))
    ids = [each.run.id for each in runs]
    for number, stored in enumerate(runs):
        noise = stored.run.spec.earlier_noise
        assert {each.run for each in noise} == set(ids[:number])
        assert all(
            0.001 < each.log_sd < 0.03 and each.degrees_of_freedom == pytest.approx(3)
            for each in noise
        )
    analysis = compare_run(runs[-1])
    (comparison,) = analysis.comparisons()
    assert comparison.estimate is not None
    assert 0.3 < comparison.estimate.borrowed < 1.5
    assert analysis.earlier_runs == 3


def test_a_run_that_goes_on_keeps_the_noise_it_began_with(lab: Laboratory) -> None:
    first = lab.run(blocks=3, stop_after=2)
    lab.seed = 2
    lab.run(blocks=3)
    lab.seed = 1
    again = lab.run(blocks=3)
    assert again.run.id == first.run.id
    assert again.run.spec.earlier_noise == ()


def test_runs_with_other_servers_are_of_the_experiment_too(lab: Laboratory) -> None:
    lab.ratios = {BASE: 1.0, SLOW: 2.0, LIKE: 1.0}
    first = lab.run(blocks=3)
    lab.ratios = {BASE: 1.0, LIKE: 1.0}
    (noise, *_) = lab.run(blocks=3).run.spec.earlier_noise
    assert (noise.run, round(noise.degrees_of_freedom)) == (first.run.id, 4)


def test_failed_server_contributes_no_noise(lab: Laboratory) -> None:
    lab.fails = lambda server, _block, _attempt: server == SLOW
    lab.run(blocks=3)
    assert lab.run(blocks=3, fresh=True).run.spec.earlier_noise == ()


def test_few_blocks_tell_nothing(lab: Laboratory) -> None:
    lab.run(blocks=2)
    assert lab.run(blocks=2, fresh=True).run.spec.earlier_noise == ()


def test_damaged_run_contributes_no_noise(lab: Laboratory) -> None:
    damaged, whole = (lab.run(blocks=3, fresh=True).run.id for _ in range(2))
    with sqlite3.connect(lab.directory / "results.sqlite") as database:
        database.execute("UPDATE measurements SET value = 'none' WHERE attempt_id = 1")
    noise = lab.run(blocks=3, fresh=True).run.spec.earlier_noise
    assert {each.run for each in noise} == {whole}
    assert damaged != whole


@pytest.fixture
def changed(lab: Laboratory) -> Iterator[Callable[..., int]]:
    """Return how many runs lend to a plan, after one run of it, where something has changed."""
    lab.run(blocks=3)
    with Store.open(lab.directory / "results.sqlite") as store:

        def lending(
            host: HostRecord = LAB_HOST,
            versions: Mapping[str, str] = MappingProxyType({}),
            *,
            factors: Mapping[str, list[str]] = MappingProxyType({}),
            **of_experiment: Any,
        ) -> int:
            text = lab_text([BASE, SLOW], 5, profile_blocks=0, factors=factors)
            plan = expand(read_text(lab.directory, text), seed=5)
            asked = replace(plan, experiment=replace(plan.experiment, **of_experiment))
            return len({each.run for each in resume.earlier_noise(store, asked, host, versions)})

        yield lending


def test_only_the_same_environment_and_design_lend(changed: Callable[..., int]) -> None:
    assert changed() == 1
    assert changed(replace(LAB_HOST, facts=LAB_HOST.facts.replace(kernel={"release": "6.2"}))) == 0
    assert changed(versions={"load_generator": "2"}) == 0
    assert changed(collectors=()) == 0
    assert changed(campaign=CampaignPart(confirms="c1")) == 0


def test_what_a_name_stands_for_must_be_the_same(changed: Callable[..., int]) -> None:
    other = ConfigurationDefinition.model_validate({"name": "default", "mysql": {"a": "1"}})
    assert changed(configurations={"default": other}) == 0
    assert changed(configurations={"another": other}) == 1


def test_a_run_of_weeks_ago_lends_nothing(
    changed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "MOST_DAYS", 0)
    assert changed() == 0


def test_groups_that_a_plan_does_not_have_are_left_out(changed: Callable[..., int]) -> None:
    assert changed(factors={"engine": ["MyISAM"]}) == 0
