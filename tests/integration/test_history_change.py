"""Test a change of a history on real servers: injected, found and confirmed."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from millrace.store.history_records import HistoryPart
from millrace.store.store import Store
from tests.support.called import millrace
from tests.support.command import QUICK_START, SHORT_TRIALS, Place

# The change is in how often a log is made durable, so the disk must be that of the test alone.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.quiet,
    pytest.mark.disk,
    pytest.mark.usefixtures("initialised_once", "settled_soon"),
]

OLD = "mysql-5.6.24"

OPTION = "innodb_flush_log_at_trx_commit"

FILE = f"""\
name = "updates"
workload = "sysbench"
blocks = 1
seed = 1
collectors = []

[factors]
server = ["{OLD}"]
test = ["update-index"]
clients = [1]
options.{OPTION} = [2, 0, 1]
{QUICK_START}

[compare]
factor = "options.{OPTION}"
base = 2

"""


def lengthened(store: Path, run_id: str, points: int) -> str:
    """Replace a run's points by a history of its two levels: half of it of each."""
    with Store.open(store) as opened:
        part = opened.histories.of_runs([run_id])
        opened.histories.forget(run_id)
        (series,) = (each for each in part.series if each.metric == "throughput")
        first, last = sorted(
            (point for of, point in part.points if of == series.id), key=lambda p: p.place
        )
        noise = np.random.default_rng(1).normal(0, 0.02, points)
        for number in range(points):
            level = first if number < points // 2 else last
            made = replace(
                level,
                label=f"c{number}",
                # One of them is the run's, so that its experiment is found.
                run_id=run_id if number == points // 2 else f"made-{number}",
                at_utc=f"2026-01-{1 + number:02}T00:00:00Z",
                place=0,
                ratio=level.ratio * math.exp(noise[number]),
            )
            states = tuple(each for each in part.states if each.id == made.state)
            opened.histories.record(HistoryPart((series,), states, ((series.id, made),)))
    return series.id


def test_an_injected_change_is_found_and_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    monkeypatch.setenv("MILLRACE_STORE", str(place.store))
    monkeypatch.setenv("MILLRACE_SNAPSHOTS", str(tmp_path / "snapshots"))
    file = tmp_path / "updates.toml"
    file.write_text(FILE + SHORT_TRIALS, encoding="utf-8")
    millrace("run", file, status=0)
    recorded = millrace("history", "record", "latest")
    assert "recorded 0, 1: " in recorded.stderr
    lengthened(place.store, place.latest().run.id, 24)

    detected = millrace("history", "detect")
    assert "? candidate regression" in detected.stdout, detected.stdout
    with Store.open(place.store) as store:
        (found,) = store.histories.changes()
    assert found.label in ("c11", "c12", "c13")
    fact = found
    for blocks in (3, 6, 12):  # on a busy host the first may leave it undecided
        confirmed = millrace("history", "confirm", found.id, "--blocks", str(blocks), status=0)
        with Store.open(place.store) as store:
            (fact,) = store.histories.changes()
        assert fact.remeasured is not None
        # Where the disk stands still, a trial of half a second commits nothing.
        assert 0 < fact.remeasured.n_blocks <= blocks
        if fact.state != "candidate":
            break
    again = fact.remeasured
    assert again is not None
    assert fact.state == "confirmed"
    assert f"▼ confirmed regression at {found.label}" in confirmed.stdout
    measured = place.latest()
    option = f"options.{OPTION}"
    assert {each.levels[option] for each in measured.treatments} == {0, 1}
    assert again.run_id == measured.run.id
    # Found again, it is still the same fact.
    assert "▼ confirmed regression" in millrace("history", "detect").stdout
    page = tmp_path / "page.html"
    assert millrace("history", "show", "--html", page).returncode == 0
    said = f"measured again, {again.after} against {again.before}, "
    assert said in page.read_text(encoding="utf-8")
