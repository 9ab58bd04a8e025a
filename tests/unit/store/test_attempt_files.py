"""Test the files of attempts next to the store: histograms, observations and series."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import DamagedResult
from millrace.model.documents import Document, as_lines
from millrace.model.observations import Observations
from millrace.store.attempt_files import CHECKS
from millrace.store.records import (
    AttemptResult,
    DrivenInterval,
    LagSample,
    LoopOperation,
    LoopRecord,
    NewArtefact,
    StoredRun,
)
from millrace.store.store import Store
from tests.support.stored_records import begin, execute_attempt, histogram, result


def copied(store: Store, tmp_path: Path) -> StoredRun:
    """Return the run as another store has it after an export and an import."""
    store.export_runs(["study-1"], tmp_path / "run.zip")
    with Store.open(tmp_path / "other.sqlite") as other:
        other.import_file(tmp_path / "run.zip")
        return other.load_run("study-1", observations_too=True)


def test_changed_artefact_is_reported(store: Store) -> None:
    what = begin(store)
    execute_attempt(store, what.trials[0].id)
    sha256 = store.load_run(what.run.id).attempts[0].artefacts[0].sha256
    store.artefacts.path(sha256).write_bytes(b"changed")
    with pytest.raises(DamagedResult, match="was changed"):
        store.export_runs([what.run.id], store.path.with_name("run.zip"))
    assert not store.path.with_name("run.zip").exists()


def test_histograms_are_kept_as_a_file_and_read_back(store: Store) -> None:
    what = begin(store)
    measured = (histogram("point-query"), histogram("COMMIT"))
    execute_attempt(store, what.trials[0].id, replace(result(), histograms=measured))
    execute_attempt(store, what.trials[1].id)

    with_some, without = store.load_run(what.run.id).attempts
    assert with_some.histograms == measured
    assert [artefact.kind for artefact in with_some.artefacts] == ["error_log", "histograms"]
    assert without.histograms == ()
    assert [artefact.kind for artefact in without.artefacts] == ["error_log"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "cannot read"),
        (lambda path: path.write_bytes(b"[]"), "was changed"),
    ],
)
def test_lost_histograms_are_reported(
    store: Store, damage: Callable[[Path], object], message: str
) -> None:
    what = begin(store)
    execute_attempt(store, what.trials[0].id, replace(result(), histograms=(histogram(),)))
    artefact = store.load_run(what.run.id).attempts[0].artefacts[-1]
    damage(store.artefacts.path(artefact.sha256))
    with pytest.raises(DamagedResult, match=message) as caught:
        store.load_run(what.run.id)
    assert artefact.sha256 in caught.value.message


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("histograms", b'[{"phase": 1}]'),
        ("observations", b"[1]"),
        ("series", b"[1]\n"),
        ("series", b'{"type": "mark"}\n{"type"'),
    ],
)
def test_invalid_file_is_reported(store: Store, kind: str, content: bytes) -> None:
    what = begin(store)
    other = AttemptResult("finished", artefacts=(NewArtefact(kind, "server", content),))
    execute_attempt(store, what.trials[0].id, other)
    if kind == "observations":
        store.load_run(what.run.id)
    with pytest.raises(DamagedResult, match=f"not a valid {kind} file"):
        store.load_run(what.run.id, observations_too=kind == "observations")


def test_observations_of_no_collector_are_empty() -> None:
    collected: dict[str, Any] = {"window_s": 2.0, "observers": [], "missing": []}
    assert Observations.model_validate(collected).is_empty
    assert not Observations.model_validate({**collected, "status": {"deltas": {}}}).is_empty
    lack = {"observer": "status", "what": "no session", "hint": None}
    assert not Observations.model_validate({**collected, "missing": [lack]}).is_empty


def test_observations_are_read_when_requested(store: Store, tmp_path: Path) -> None:
    what = begin(store)
    observed = {"status": {"deltas": {"Questions": 5}}, "missing": []}
    execute_attempt(store, what.trials[0].id, replace(result(), observations={"server": observed}))
    execute_attempt(store, what.trials[1].id)

    assert all(a.observations.is_empty for a in store.load_run(what.run.id).attempts)
    some, none = store.load_run(what.run.id, observations_too=True).attempts
    assert some.observations.status is not None
    assert some.observations.status.deltas == {"Questions": 5}
    assert none.observations.is_empty

    assert copied(store, tmp_path).attempts[0].observations == some.observations


def test_series_are_read_back_and_copied(store: Store, tmp_path: Path) -> None:
    what = begin(store)
    interval = b'{"type": "interval", "t_s": 1.0, "duration_s": 1.0, "transactions": 5}'
    lines = b'{"type": "mark"}\n' + interval + b"\n"
    measured = replace(result(), artefacts=(NewArtefact("series", "server", lines),))
    execute_attempt(store, what.trials[0].id, measured)
    execute_attempt(store, what.trials[1].id)
    with_some, without = store.load_run(what.run.id).attempts
    assert with_some.series == (DrivenInterval(t_s=1.0, duration_s=1.0, transactions=5),)
    assert without.series == ()

    assert copied(store, tmp_path).attempts[0].series == with_some.series


SAMPLES = tuple(
    LagSample(
        t_s=t_s, written_bytes=300, received_bytes=200, applied_bytes=100, lag_s=lag_s,
        reported_lag_s=None,
    )
    for t_s, lag_s in ((0.0, None), (0.25, 0.0), (0.5, 0.25))
)  # fmt: skip


def loop(number: int, *, cold: bool = False) -> LoopRecord:
    operation = LoopOperation(name="add_node", count=7, sum_s=0.5, encoded="HIST")
    return LoopRecord(
        loop=number, transactions=100 * number, errors=0, duration_s=2.0, restarted_cold=cold,
        apparent_bytes=8192, allocated_bytes=4096, operations=(operation,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "written"), [("lag", SAMPLES), ("loops", (loop(1), loop(2, cold=True)))]
)
def test_lines_of_a_trial_are_read_as_they_were_written(
    kind: str, written: tuple[Document, ...]
) -> None:
    assert CHECKS[kind](as_lines(written)) == written


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("lag", b"{}\n", "Field required"),
        ("lag", b"no JSON\n", "Expecting value"),
        ("lag", b'{"t_s": -1}\n', "greater than or equal to 0"),
        ("loops", b"{}\n", "Field required"),
        ("loops", b"no JSON\n", "Expecting value"),
        ("loops", as_lines([loop(2)]), "loops are not numbered"),
        ("loops", as_lines([loop(1)] * 2), "loops are not numbered"),
    ],
)
def test_other_files_are_refused_also_in_imported_runs(
    kind: str, content: bytes, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        CHECKS[kind](content)
