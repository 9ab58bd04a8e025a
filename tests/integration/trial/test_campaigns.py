"""Test ``millrace calibrate`` and ``bisect`` with real servers, tiny data and few seconds."""

import json
from pathlib import Path

import pytest

from millrace.store.records import StoredRun
from tests.support.command import SHORT_TRIALS, Place

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

FILE = """\
name = "short"
workload = "sysbench"
blocks = 3
collectors = []

[factors]
server = ["mysql-5.7.22"]
test = ["{test}"]
clients = [1]

[compare]
factor = "server"
base = "mysql-5.7.22"

"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, {"MILLRACE_SNAPSHOTS": str(tmp_path / "snapshots")})


def written(directory: Path, test: str) -> Path:
    file = directory / "short.toml"
    file.write_text(FILE.format(test=test) + SHORT_TRIALS, encoding="utf-8")
    return file


def test_a_host_is_calibrated_and_reports_quote_it(tmp_path: Path, place: Place) -> None:
    file = written(tmp_path, "update-nonindex")
    calibrate = ("calibrate", file, "--verdicts", "1")
    ran = place.millrace(*calibrate, "--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["verdicts"] == 1
    (group,) = document["groups"]
    assert group["noise"]["n_blocks"] == 3
    (injected,) = group["injected"]
    # Its measured stop is at least the requested one: a busy host is late to continue it.
    wanted = float(injected["level"].removeprefix("cpu=").removesuffix("%")) / 100
    assert 0.85 * wanted < injected["stopped"] < wanted + 0.3
    stored = place.latest()
    assert {attempt.outcome for attempt in stored.attempts} == {"finished"}

    again = place.millrace(*calibrate)
    assert again.returncode == 0, again.stderr
    assert place.latest().attempts == stored.attempts

    ran = place.millrace(*calibrate, "--slowdown", "fsync", "--json")
    assert ran.returncode == 0, ran.stderr
    (group,) = json.loads(ran.stdout)["groups"]
    (delayed,) = [each for each in group["injected"] if each["level"] != injected["level"]]
    assert delayed["level"] == "fsync=1000us"
    assert delayed["low"] < 1
    latencies_s = mean_latencies_s(place.latest(), slowdown=delayed["level"])
    assert latencies_s
    assert min(latencies_s) > 0.001  # each commit waits for an fsync, which takes that or more

    unknown = place.millrace("calibrate", file, "--slowdown", "innodb_new_thing=1")
    assert unknown.returncode == 2
    assert "mysql-5.7.22 has no option innodb_new_thing" in unknown.stderr

    ran = place.millrace("run", file, "--blocks", "1")
    assert "calibrated " in ran.stdout
    assert "0 false verdicts of 1 (" in ran.stdout or "1 false verdict of 1 (" in ran.stdout


def mean_latencies_s(stored: StoredRun, *, slowdown: str) -> list[float]:
    """Return the mean time of a transaction in each trial with this slowdown."""
    slowed = {each.id for each in stored.treatments if each.levels["slowdown"] == slowdown}
    of_slowed = {trial.id for trial in stored.trials if trial.treatment_id in slowed}
    return [
        histogram.sum_s / histogram.count
        for attempt in stored.attempts
        if attempt.trial_id in of_slowed
        for histogram in attempt.histograms
        if histogram.of == "transaction"
    ]


def test_a_change_between_versions_is_found(tmp_path: Path, place: Place) -> None:
    servers = ["mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.33"]
    ran = place.millrace(
        "bisect", "--good", servers[0], "--bad", servers[-1], "--among", ",".join(servers),
        "--workload", written(tmp_path, "point-query"), "--margin", "5", "--json",
        "--max-time", "40s",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert [each["name"] for each in document["members"]] == servers
    assert document["trials"] >= 1  # a slow host has no time for more
    if document["outcome"] == "found":
        assert document["ratio"] < 1
    assert "<svg" in next(tmp_path.glob("reports/*.html")).read_text(encoding="utf-8")
