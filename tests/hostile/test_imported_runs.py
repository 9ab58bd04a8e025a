"""Test that an imported run never passes for one that was measured here, whatever it says."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.store.records import StoredRun
from millrace.store.store import Store
from tests.support.builders import keep
from tests.support.called import Done, millrace
from tests.support.forged_archives import forged
from tests.support.history_points import renamed, run_of

LOCAL, FORGED = "nightly-20260105-1000", "nightly-20260106-1000"


def tomorrow() -> str:
    later = datetime.now(UTC) + timedelta(hours=23)
    return later.strftime("%Y-%m-%dT%H:%M:%SZ")


def quick(run_id: str = FORGED, created_utc: str | None = None) -> StoredRun:
    """Return a run with equal values, so that no verdict speaks against it."""
    return run_of(run_id, ratio=1.0, created_utc=created_utc or tomorrow())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a store that has a local run with a regression."""
    keep(run_of(LOCAL, ratio=0.8), tmp_path / "results.sqlite")
    return tmp_path


def call(place: Path, *arguments: str, status: int | None = None) -> Done:
    return millrace(*arguments, "--store", place / "results.sqlite", status=status)


def bring(place: Path, archive: Path, status: int = 0) -> Done:
    return call(place, "results", "import", str(archive), status=status)


def test_the_newest_run_is_a_local_one_for_every_command_when_a_newer_one_is_imported(
    place: Path,
) -> None:
    bring(place, forged(place / "theirs", quick()))
    gate = ("--fail-on", "regression")
    assert call(place, "report", "latest", *gate).returncode == 10
    assert call(place, "report", *gate).returncode == 10
    assert json.loads(call(place, "report", "--format", "json").stdout)["run"]["id"] == LOCAL
    assert LOCAL in call(place, "results", "show", "latest").stdout
    call(place, "history", "record", "latest", "--label", "v1", status=0)
    with Store.open(place / "results.sqlite", read_only=True) as store:
        assert store.find_run("latest").id == LOCAL
        assert [each.run_id for each in store.histories.recordings()] == [LOCAL]
    assert call(place, "explain").stderr.count(LOCAL) == 1  # without observations
    assert call(place, "results", "remove", "latest", "--yes").stderr.splitlines()[0] == LOCAL


def test_no_run_is_the_newest_when_all_were_imported(tmp_path: Path) -> None:
    bring(tmp_path, forged(tmp_path / "theirs", quick()))
    done = call(tmp_path, "report", "latest", "--fail-on", "regression", status=2)
    assert "has only imported runs" in done.stderr
    assert FORGED in done.stderr


@pytest.mark.parametrize("gate", [("report", "--fail-on", "regression"), ("history", "record")])
def test_what_depends_on_a_run_takes_an_imported_one_only_by_its_whole_id(
    place: Path, gate: tuple[str, ...]
) -> None:
    bring(place, forged(place / "theirs", quick()))
    refused = call(place, *gate, FORGED[:-2], status=2)
    assert "was imported" in refused.stderr
    assert FORGED in refused.stderr
    assert call(place, *gate, FORGED).returncode == 0


def test_the_beginning_of_an_id_stands_for_the_local_run_when_an_imported_one_has_it_too(
    place: Path,
) -> None:
    bring(place, forged(place / "theirs", quick()))
    for beginning in ("nightly", "n"):
        assert call(place, "report", beginning, "--fail-on", "regression").returncode == 10
        assert LOCAL in call(place, "results", "show", beginning).stdout


def test_an_import_is_refused_when_its_id_is_the_beginning_of_a_local_one(place: Path) -> None:
    done = bring(place, forged(place / "theirs", quick("nightly-20260105")), status=2)
    assert LOCAL in done.stderr
    assert call(place, "report", "nightly-20260105", "--fail-on", "regression").returncode == 10


def test_a_gate_refuses_the_id_of_an_imported_run_that_begins_a_later_local_one(
    tmp_path: Path,
) -> None:
    bring(tmp_path, forged(tmp_path / "theirs", quick("nightly")))
    keep(run_of(LOCAL, ratio=0.8), tmp_path / "results.sqlite")
    done = call(tmp_path, "report", "nightly", "--fail-on", "regression", status=2)
    assert LOCAL in done.stderr
    assert call(tmp_path, "results", "remove", "nightly", "--yes").returncode == 0
    assert call(tmp_path, "report", "nightly", "--fail-on", "regression").returncode == 10


def test_a_local_run_stays_when_an_archive_has_its_id(place: Path) -> None:
    bring(place, forged(place / "theirs", quick(LOCAL)))
    assert call(place, "report", LOCAL, "--fail-on", "regression").returncode == 10
    assert json.loads(call(place, "results", "list", "--json").stdout)[0]["origin"] == "local"


def test_an_own_export_is_imported_after_the_run_was_removed(place: Path) -> None:
    file = place / "own.zip"
    assert call(place, "results", "export", LOCAL, "--output", str(file)).returncode == 0
    bring(place, file)
    assert call(place, "report", "--fail-on", "regression").returncode == 10
    assert call(place, "results", "remove", LOCAL, "--yes").returncode == 0
    bring(place, file)
    assert call(place, "report", "--fail-on", "regression").returncode == 2


def test_every_list_report_and_document_names_the_origin(place: Path) -> None:
    # Whatever the file says of itself.
    archive = forged(
        place / "theirs", quick(), edit=lambda document: document["run"].update(origin="local")
    )
    bring(place, archive)
    origins = {LOCAL: "local", FORGED: "imported"}
    for run, origin in origins.items():
        is_imported = origin == "imported"
        for output in ("terminal", "markdown", "html"):
            text = call(
                place, "report", run, "--format", output, "--output", str(place / f"{run}.{output}")
            )
            assert text.returncode == 0, text.stderr
            written = (place / f"{run}.{output}").read_text(encoding="utf-8")
            assert ("imported, not measured here" in written) == is_imported
            assert ("nothing in it was measured or verified here" in " ".join(written.split())) == (
                is_imported
            )
        document = json.loads(call(place, "report", run, "--format", "json").stdout)
        assert document["run"]["origin"] == origin
        rows = csv.DictReader(io.StringIO(call(place, "report", run, "--format", "csv").stdout))
        assert {row["origin"] for row in rows} == {origin}
        shown = json.loads(call(place, "results", "show", run, "--json").stdout)
        assert shown["run"]["origin"] == origin
        lines = call(place, "results", "show", run).stdout
        assert ("imported, not measured here" in lines) == is_imported
    listed = json.loads(call(place, "results", "list", "--json").stdout)
    assert {each["id"]: each["origin"] for each in listed} == origins
    listing = [line.split() for line in call(place, "results", "list").stdout.splitlines()]
    assert {row[0]: row[4] for row in listing[1:]} == origins


def test_the_origin_of_an_export_is_not_in_the_file(place: Path) -> None:
    bring(place, forged(place / "theirs", quick()))
    again = place / "again.zip"
    assert call(place, "results", "export", FORGED, "--output", str(again)).returncode == 0
    with Store.open(place / "third.sqlite") as third:
        assert third.import_file(again).added == (FORGED,)
        assert third.find_run(FORGED).origin == "imported"


def test_an_imported_run_gets_no_trials_of_this_host(place: Path) -> None:
    theirs = quick()
    bring(place, forged(place / "theirs", theirs))
    with (
        Store.open(place / "results.sqlite") as store,
        pytest.raises(UserError, match=r"imported run .* cannot get"),
    ):
        store.begin_run(theirs.run, theirs.treatments, theirs.trials)


def test_trials_that_a_local_run_will_need_are_refused(place: Path) -> None:
    theirs = quick()
    taken = replace(
        theirs,
        trials=tuple(replace(each, id=f"{LOCAL}/next-{n}") for n, each in enumerate(theirs.trials)),
        attempts=(),
    )
    done = bring(place, forged(place / "theirs", taken), status=2)
    assert f"belongs to run {LOCAL}" in done.stderr


def test_an_ablation_stands_for_the_local_run_that_it_tested_and_no_other(place: Path) -> None:
    tested = {"run": LOCAL, "base": "a", "candidate": "b", "aligned": [], "left_out": []}
    own = renamed(run_of("x"), "nightly-ablation", "2026-02-01T00:00:00Z")
    own = replace(own, run=replace(own.run, spec=own.run.spec.replace(tested=tested)))
    keep(own, place / "results.sqlite")
    file = place / "own.zip"
    assert call(place, "results", "export", LOCAL, "--output", str(file)).returncode == 0
    assert call(place, "results", "remove", LOCAL, "--yes").returncode == 0
    bring(place, file)
    done = call(place, "explain", "nightly-ablation", status=2)
    assert "no longer in the store" in done.stderr


@pytest.mark.parametrize("created", ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"])
def test_a_run_of_long_ago_is_imported_and_is_not_the_newest(place: Path, created: str) -> None:
    bring(place, forged(place / "theirs", quick(created_utc=created)))
    assert call(place, "report", "--fail-on", "regression").returncode == 10
    assert call(place, "report", FORGED).returncode == 0
