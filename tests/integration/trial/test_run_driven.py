"""Test ``millrace run`` of an experiment with driven clients, from the file to the report."""

from pathlib import Path

import pytest

from tests.support.command import Place

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

SERVERS = ["mysql-5.5.34", "mysql-5.7.22", "mariadb-10.11.19"]

FILE = f"""\
name = "driven"
workload = "sysbench"
blocks = 1
seed = 1

[factors]
server = {SERVERS}
test = ["update-index"]
clients = [2]
options.innodb_page_cleaners = [1, 2]

[compare]
factor = "options.innodb_page_cleaners"
base = 1

[parameters]
table_size = 1_000
time_s = 0.3
warmup_s = 0.1
settle_s = 0.3
"""


def test_an_experiment_of_driven_clients(tmp_path: Path) -> None:
    place = Place(tmp_path, {"MILLRACE_SNAPSHOTS": str(tmp_path / "snapshots")})
    file = tmp_path / "driven.toml"
    file.write_text(FILE, encoding="utf-8")
    ran = place.millrace("run", file)
    assert ran.returncode == 0, ran.stderr
    same = "the levels of options.innodb_page_cleaners do not differ there"
    for lacking in ("mysql-5.5.34", "mariadb-10.11.19"):
        assert f"{lacking} has no option innodb_page_cleaners: {same}" in ran.stderr

    stored = place.latest()
    assert len(stored.attempts) == 3 * 2
    assert {attempt.outcome for attempt in stored.attempts} == {"finished"}
    # Page cleaners do not affect the files: one snapshot per server, made by its first trial.
    making = [a for a in stored.attempts if "load" in [step.name for step in a.steps]]
    assert len(making) == len(SERVERS)
    for attempt in stored.attempts:
        found = {each.name: each.value for each in attempt.measurements}
        assert found["transactions"] > 0
        assert found["errors"] == 0
        assert {each.of for each in attempt.histograms} == {"transaction", "statement"}
        assert {"series", "error_log"} < {each.kind for each in attempt.artefacts}

    again = place.millrace("run", file)
    assert "all 6 trials have a result" in again.stderr
    assert place.latest().attempts == stored.attempts
