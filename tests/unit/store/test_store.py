"""Test the ledger, its records and its queries."""

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from millrace import atomic_file
from millrace.campaign.blocks import joined, n_blocks, open_block_number
from millrace.errors import HostError, UserError
from millrace.model.host_facts import HostFacts
from millrace.model.run_spec import Design, Extension
from millrace.store import schema
from millrace.store.records import AttemptResult, HostRecord, Owner
from millrace.store.store import Store
from tests.support.stored_records import (
    CALIBRATES,
    LATER,
    NOW,
    OTHER_OWNER,
    OWNER,
    Begun,
    alive,
    begin,
    begun,
    claim,
    dead,
    execute_attempt,
    failed,
    result,
    results,
    runs,
    without_attempt_ids,
)


@pytest.fixture(scope="module")
def template(own_places: Path) -> Path:
    """Return an empty store to copy: quicker than making one for every example."""
    path = own_places / "template.sqlite"
    with Store.open(path):
        pass
    return path


@contextmanager
def fresh(template: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=template.parent) as directory:
        shutil.copy(template, Path(directory) / "results.sqlite")
        yield Path(directory)


@settings(max_examples=25, deadline=None)
@given(runs(), st.lists(results(), min_size=1, max_size=2))
def test_anything_comes_back_as_it_was_stored_and_from_an_export(
    template: Path, what: Begun, ended_results: list[AttemptResult]
) -> None:
    with fresh(template) as directory, Store.open(directory / "results.sqlite") as store:
        begin(store, what)
        for ended, trial in zip(ended_results, what.trials, strict=False):
            execute_attempt(store, trial.id, ended)

        stored = store.load_run("run")
        assert (stored.run, stored.treatments, stored.trials) == (
            what.run,
            what.treatments,
            what.trials,
        )
        for level, kept in zip(what.treatments, stored.treatments, strict=True):
            assert list(map(repr, level.levels.items())) == list(map(repr, kept.levels.items()))
        for ended, trial, attempt in zip(ended_results, what.trials, stored.attempts, strict=False):
            assert (attempt.trial_id, attempt.number, attempt.owner) == (trial.id, 1, OWNER)
            assert (attempt.started_utc, attempt.ended_utc) == (NOW, LATER)
            kept_artefacts = [
                (a.kind, a.role, store.artefacts.read(a.sha256)) for a in attempt.artefacts
            ]
            assert kept_artefacts[: len(ended.artefacts)] == list(ended.artefacts)
            assert [kind for kind, _, _ in kept_artefacts[len(ended.artefacts) :]] == [
                "histograms"
            ] * bool(ended.histograms)
            # Observations are read only where they are asked for.
            not_read = ("artefacts", "is_transient", "observations")
            expected = {name: v for name, v in asdict(ended).items() if name not in not_read}
            assert {name: asdict(attempt)[name] for name in expected} == expected

        store.export_runs(["run"], directory / "run.zip")
        with Store.open(directory / "other.sqlite") as other:
            assert other.import_file(directory / "run.zip").added == ("run",)
            assert without_attempt_ids(other.load_run("run")) == without_attempt_ids(stored)
            for attempt in stored.attempts:
                for artefact in attempt.artefacts:
                    content = other.artefacts.read(artefact.sha256)
                    assert content == store.artefacts.read(artefact.sha256)


def test_a_finished_trial_is_never_claimed_again(store: Store) -> None:
    what = begin(store)
    execute_attempt(store, what.trials[0].id)
    for retry in (False, True):
        assert store.claim(what.trials[0].id, OWNER, NOW, is_alive=dead, retry_failed=retry) is None


def test_a_failed_trial_is_claimed_again_only_on_request(store: Store) -> None:
    what = begin(store)
    execute_attempt(store, what.trials[0].id, failed())
    assert store.claim(what.trials[0].id, OWNER, NOW, is_alive=dead) is None
    execute_attempt(store, what.trials[0].id)
    stored = store.load_run(what.run.id)
    assert [(a.number, a.outcome) for a in stored.attempts] == [(1, "failed"), (2, "finished")]
    assert stored.last_attempts()[what.trials[0].id].outcome == "finished"


def test_an_interrupted_trial_is_taken_up_again(store: Store) -> None:
    what = begin(store)
    execute_attempt(store, what.trials[0].id, AttemptResult("interrupted", reason="Ctrl-C"))
    assert store.claim(what.trials[0].id, OWNER, NOW, is_alive=alive) is not None


def test_a_living_owner_keeps_its_trial_and_a_dead_one_loses_it(store: Store) -> None:
    what = begin(store)
    trial = what.trials[0].id
    first = claim(store, trial)
    asked: list[Owner] = []

    def is_alive(owner: Owner) -> bool:
        asked.append(owner)
        return False

    assert store.claim(trial, OTHER_OWNER, LATER, is_alive=alive) is None
    second = store.claim(trial, OTHER_OWNER, LATER, is_alive=is_alive)
    assert second is not None
    assert asked == [OWNER]
    attempts = store.load_run(what.run.id).attempts
    assert [(a.outcome, a.ended_utc, a.owner) for a in attempts] == [
        ("interrupted", LATER, OWNER),
        (None, None, OTHER_OWNER),
    ]
    with pytest.raises(HostError, match="another process ended it"):
        store.finish(first, result(), LATER)
    store.finish(second, result(), LATER)
    with pytest.raises(HostError, match="another process ended it"):
        store.finish(second, result(), LATER)


def test_an_unknown_trial_cannot_be_claimed(store: Store) -> None:
    with pytest.raises(LookupError, match="nothing"):
        store.claim("nothing", OWNER, NOW, is_alive=alive)


def test_a_result_that_is_no_number_is_refused_and_changes_nothing(store: Store) -> None:
    what = begin(store)
    attempt = claim(store, what.trials[0].id)
    good = result()
    bad = replace(good, measurements=(replace(good.measurements[0], value=float("nan")),))
    with pytest.raises(ValueError, match="load_duration_s is nan"):
        store.finish(attempt, bad, LATER)
    store.finish(attempt, good, LATER)


def test_results_that_belong_together_are_kept_together_or_not_at_all(store: Store) -> None:
    what = begin(store)
    names = [trial.id for trial in what.trials[:2]]
    claimed = [store.claim(name, OWNER, NOW, is_alive=alive) for name in names]
    first, second = (each for each in claimed if each is not None)
    store.finish(second, failed(), LATER)
    with pytest.raises(HostError, match="another process ended it"):
        store.finish_attempts([(first, result()), (second, result())], LATER)
    outcomes = [attempt.outcome for attempt in store.load_run(what.run.id).attempts]
    assert outcomes == [None, "failed"]
    store.finish_attempts([(first, result())], LATER)
    assert store.load_run(what.run.id).attempts[0].outcome == "finished"


def test_text_that_is_not_unicode_does_not_lose_the_result(store: Store) -> None:
    what = begin(store)
    execute_attempt(store, what.trials[0].id, replace(failed(), log_tail="bad \udcff byte"))
    assert store.load_run(what.run.id).attempts[0].log_tail == "bad ? byte"


def claim_all(path: Path, trial_ids: list[str], pid: int, claimed: Path) -> None:
    """In a separate process, open the store and claim everything possible."""
    owner = Owner("host", "boot", pid, pid)
    with Store.open(path) as store:
        begin(store, blocks=10)
        mine = [each for each in trial_ids if store.claim(each, owner, NOW, is_alive=alive)]
    claimed.write_text("\n".join(mine))


def test_two_processes_that_start_at_once_claim_every_trial_exactly_once(tmp_path: Path) -> None:
    trial_ids = [trial.id for trial in begun(blocks=10).trials]
    context = multiprocessing.get_context("spawn")
    files = [tmp_path / "first", tmp_path / "second"]
    processes = [
        context.Process(target=claim_all, args=(tmp_path / "r.sqlite", trial_ids, pid, file))
        for pid, file in enumerate(files, start=1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    claimed = [line for file in files for line in file.read_text().splitlines()]
    assert sorted(claimed) == sorted(trial_ids)


def test_beginning_again_adds_blocks_and_changes_nothing_else(store: Store) -> None:
    begin(store, blocks=2)
    execute_attempt(store, begun().trials[0].id)
    begin(store, blocks=2, title="Another title")
    begin(store, blocks=3)
    begin(store, blocks=1)
    stored = store.load_run("study-1")
    assert (stored.run.blocks, stored.run.title) == (3, "A study")
    assert [trial.id for trial in stored.trials] == [t.id for t in begun(blocks=3).trials]
    assert len(stored.attempts) == 1
    with pytest.raises(ValueError, match="measures another experiment"):
        begin(store, digest="another")


def test_runs_are_found_by_prefix_and_latest(store: Store) -> None:
    with pytest.raises(UserError, match="has no runs yet"):
        store.find_run("latest")
    begin(store, "study-1", created_utc="2026-05-02T00:00:00Z")
    begin(store, "study-12", created_utc="2026-05-01T00:00:00Z")
    assert store.find_run("latest").id == "study-1"
    assert store.find_run("study-12") == begun("study-12", created_utc="2026-05-01T00:00:00Z").run
    assert store.find_run("study-1").id == "study-1"  # exact, though another id begins with it
    with pytest.raises(UserError, match="2 runs have an id that starts with 'study'") as ambiguous:
        store.find_run("study")
    assert "study-12" in ambiguous.value.message
    with pytest.raises(UserError, match="no run has an id that starts with 'STUDY'"):
        store.find_run("STUDY")
    with pytest.raises(UserError, match="no run has an id that starts with 'st%'"):
        store.find_run("st%")


def test_the_runs_that_test_another_are_found_newest_first(store: Store) -> None:
    begin(store, "study-1")
    assert store.ablations_of("study-1") == []
    for name, of, day in (("old", "study-1", 2), ("new", "study-1", 3), ("other", "study-2", 4)):
        tested = {"run": of, "base": "t-a", "candidate": "t-b", "aligned": [], "left_out": []}
        spec = begun().run.spec.replace(tested=tested)
        begin(store, name, spec=spec, created_utc=f"2026-05-0{day}T00:00:00Z")
    assert [run.id for run in store.ablations_of("study-1")] == ["new", "old"]
    assert store.ablations_of("study") == []


def test_each_extension_of_a_run_is_recorded(store: Store) -> None:
    extended = Extension(
        blocks=9,
        utc=LATER,
        command="millrace run x.toml --blocks 3",
        design=Design(kind="fixed", blocks=3),
    )
    begin(store, blocks=2)
    assert store.find_run("study-1").spec.extensions is None
    for blocks in (2, 1, 3, 3, 5):
        what = begun(blocks=blocks)
        store.begin_run(what.run, what.treatments, what.trials, extension=extended)
    begin(store, blocks=6)
    run = store.find_run("study-1")
    assert run.blocks == 6
    assert run.spec == begun().run.spec.replace(
        extensions=(extended.replace(blocks=3), extended.replace(blocks=5))
    )


def test_the_runs_of_an_experiment_on_a_host_are_found_newest_first(store: Store) -> None:
    old = begun("old", created_utc="2026-05-01T00:00:00Z", seed=1)
    new = begun("new", created_utc="2026-05-02T00:00:00Z", seed=2)
    begin(store, old)
    begin(store, new)
    begin(store, "other", digest="another")
    assert store.runs_of("digest", "host", None) == [new.run, old.run]
    assert store.runs_of("digest", "host", seed=1) == [old.run]
    assert store.runs_of("digest", "elsewhere", None) == []
    assert store.runs_of("unknown", "host", None) == []


def test_runs_are_listed_newest_first_with_their_trials_counted(store: Store) -> None:
    assert store.list_runs() == []
    old = begin(store, "old", created_utc="2026-05-01T00:00:00Z", blocks=3)
    begin(store, "new", created_utc="2026-05-02T00:00:00Z")
    execute_attempt(store, old.trials[0].id, failed())
    execute_attempt(store, old.trials[0].id)
    execute_attempt(store, old.trials[1].id, failed())
    execute_attempt(store, old.trials[2].id, AttemptResult("interrupted"))
    store.claim(old.trials[3].id, OWNER, NOW, is_alive=alive)
    new_line, old_line = store.list_runs()
    assert (new_line.id, new_line.finished, new_line.failed, new_line.open) == ("new", 0, 0, 4)
    assert (old_line.id, old_line.finished, old_line.failed, old_line.open) == ("old", 1, 1, 4)


def test_effective_variables_are_stored_once_though_ports_differ(store: Store) -> None:
    what = begin(store)
    for port, trial in enumerate(what.trials):
        execute_attempt(store, trial.id, result(port=str(port)))
    attempts = store.load_run(what.run.id).attempts
    assert [a.instances[0].effective["port"] for a in attempts] == ["0", "1", "2", "3"]
    with store._reading() as connection:
        for table in (schema.variable_sets, schema.servers):
            assert connection.scalar(select(func.count()).select_from(table)) == 1


def test_removing_a_run_takes_its_files_but_none_of_another_run(store: Store) -> None:
    kept, gone = begun("kept"), begun("gone")
    begin(store, kept)
    begin(store, gone)
    execute_attempt(store, kept.trials[0].id, result(log=b"shared"))
    execute_attempt(store, gone.trials[0].id, result(log=b"shared"))
    execute_attempt(store, gone.trials[1].id, result(log=b"alone", port="1"))
    store.events_path("gone").parent.mkdir()
    store.events_path("gone").write_text("{}\n")
    store.report_path("gone").parent.mkdir()
    for run_id in ("gone", "kept"):
        store.report_path(run_id).write_text("<html>")
    before = store.load_run("kept")

    with pytest.raises(UserError, match="has no run nonsense"):
        store.remove_runs(["gone", "nonsense"], is_alive=dead)
    store.remove_runs(["gone"], is_alive=dead)

    assert [run.id for run in store.list_runs()] == ["kept"]
    assert store.load_run("kept") == before
    files = [path.read_bytes() for path in store.artefacts.directory.rglob("*") if path.is_file()]
    assert files == [b"shared"]
    assert not store.events_path("gone").exists()
    assert not store.report_path("gone").exists()
    assert store.report_path("kept").exists()
    store.remove_runs(["kept"], is_alive=dead)
    assert not store.report_path("kept").exists()
    with store._reading() as connection:
        for table in schema.metadata.sorted_tables:
            assert connection.scalar(select(func.count()).select_from(table)) == 0, table.name
    assert list(store.artefacts.directory.iterdir()) == []


def test_a_run_that_is_being_measured_is_not_removed(store: Store) -> None:
    what = begin(store)
    store.claim(what.trials[0].id, OWNER, NOW, is_alive=alive)
    with pytest.raises(UserError, match="is being measured by process 4711"):
        store.remove_runs([what.run.id], is_alive=alive)
    assert len(store.list_runs()) == 1
    store.remove_runs([what.run.id], is_alive=dead)
    assert store.list_runs() == []


def test_a_store_opened_for_reading_cannot_be_written(store: Store) -> None:
    begin(store)
    with Store.open(store.path, read_only=True) as reader:
        with pytest.raises(UserError, match="read-only"):
            reader.claim(begun().trials[0].id, OWNER, NOW, is_alive=alive)
        execute_attempt(store, begun().trials[0].id)
        assert reader.list_runs()[0].finished == 1


def with_others(what: Begun) -> Begun:
    """Add an A/A trial in block 0 and two profiled blocks."""
    aa_trial = replace(what.trials[0], id="study-1/aa", position=90, purpose="aa")
    profiled = [
        replace(what.trials[0], id=f"study-1/p{n}", block=n, position=91 + n, purpose="profile")
        for n in range(2)
    ]
    return replace(what, trials=(*what.trials, aa_trial, *profiled))


def test_blocks_that_nobody_began_are_taken_back(store: Store) -> None:
    what = with_others(begun(blocks=4))
    begin(store, what)
    for trial in (what.trials[0], what.trials[3], what.trials[-2]):
        execute_attempt(store, trial.id, failed())
    store.delete_unstarted_blocks("study-1")
    stored = store.load_run("study-1")
    assert stored.run.blocks == 2
    assert {trial.id for trial in stored.trials} == {
        "study-1/0-t-a", "study-1/0-t-b", "study-1/1-t-a", "study-1/1-t-b", "study-1/aa",
        "study-1/p0",
    }  # fmt: skip
    assert len(stored.attempts) == 3


def test_dropped_blocks_can_start_again(store: Store) -> None:
    what = begin(store, blocks=3)
    execute_attempt(store, what.trials[0].id, failed())
    store.delete_unstarted_blocks("study-1")
    begin(store, what)
    stored = store.load_run("study-1")
    assert (stored.run.blocks, stored.trials) == (3, what.trials)


def test_a_run_without_any_attempt_has_no_block(store: Store) -> None:
    begin(store, blocks=3)
    begin(store, "study-2", blocks=3)
    store.delete_unstarted_blocks("study-1")
    assert (store.load_run("study-1").run.blocks, store.load_run("study-1").trials) == (0, ())
    assert len(store.load_run("study-2").trials) == 6


def test_purposes_of_trials_are_kept_and_exported(store: Store, tmp_path: Path) -> None:
    what = begin(store, with_others(begun()))
    store.export_runs(["study-1"], tmp_path / "runs.zip")
    with Store.open(tmp_path / "other.sqlite") as other:
        other.import_file(tmp_path / "runs.zip")
        assert set(other.load_run("study-1").trials) == set(what.trials)
    assert {trial.purpose for trial in what.trials} == {"measure", "aa", "profile"}


def test_design_is_the_latest_requested() -> None:
    run = begun(blocks=3).run
    assert run.design == Design(kind="fixed", blocks=3)
    first = {"kind": "sequential", "blocks": 20, "max_time_s": 60.0}
    said = replace(run, spec=run.spec.replace(design=first))
    assert said.design == Design(kind="sequential", blocks=20, max_time_s=60.0)
    again = {
        "blocks": 3,
        "utc": NOW,
        "command": "millrace run x.toml --blocks 30",
        "design": {"kind": "fixed", "blocks": 30, "max_time_s": None},
    }
    extended = replace(said, spec=said.spec.replace(extensions=[again]))
    assert extended.design == Design(kind="fixed", blocks=30)


def test_the_calibrations_of_a_host_are_found_newest_first(store: Store) -> None:
    spec = begun().run.spec.replace(calibrates=CALIBRATES)
    for run_id, day, host, of in (
        ("old", 1, "host", spec),
        ("new", 3, "host", spec),
        ("elsewhere", 4, "other", spec),
        ("ordinary", 5, "host", begun().run.spec),
    ):
        what = begun(
            run_id,
            created_utc=f"2026-05-0{day}T12:00:00Z",
            host=HostRecord(host, HostFacts()),
            spec=of,
        )
        begin(store, what)
    measured = store.find_run("ordinary")
    assert [run.id for run in store.calibrations_of(measured)] == ["new", "old"]
    assert store.calibrations_of(replace(measured, host=HostRecord("nowhere", HostFacts()))) == []


@pytest.mark.parametrize("from_block", range(4))
def test_a_run_is_read_from_a_block_on_and_joined_with_what_was_read(
    store: Store, from_block: int
) -> None:
    what = begin(store, blocks=3)
    for trial in what.trials[:-1]:
        execute_attempt(store, trial.id)
    whole = store.load_run(what.run.id)
    later = store.load_run(what.run.id, from_block=from_block)
    assert {trial.block for trial in later.trials} == set(range(from_block, 3))
    assert len(later.attempts) == max(2 * (3 - from_block) - 1, 0)
    assert joined(whole, later, from_block=from_block) == whole
    assert (n_blocks(whole), open_block_number(whole)) == (3, 2)


def test_nothing_is_open_before_the_first_block(store: Store) -> None:
    assert (n_blocks(None), open_block_number(None)) == (0, None)


def test_opening_a_store_removes_the_drafts_of_killed_writers(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        sha256 = store.artefacts.keep(b"kept")
        places = [store.artefacts.path(sha256), store.report_path("killed")]
    for place in places:
        child = os.fork()
        if child == 0:
            with atomic_file.atomic_write(place) as draft:
                draft.write_text("half")
                os._exit(9)
        os.waitpid(child, 0)
    left = [draft for place in places for draft in place.parent.glob(".*")]
    assert len(left) == 2
    with atomic_file.atomic_write(places[0].with_name("written")) as written:
        left = [draft for place in places for draft in place.parent.glob(".*")]
        Store.open(path, read_only=True).close()
        assert [draft for draft in left if not draft.exists()] == []
        Store.open(path).close()
        assert [draft for draft in left if draft.exists()] == [written.readlink()]
    assert places[0].read_bytes() == b"kept"
