"""Test trials in which a replica applies what a load left in its source's log."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from millrace.campaign import preparation
from millrace.experiment.plan import expand
from millrace.levels import Level
from millrace.loadgen import datasets
from millrace.store.records import AttemptResult
from millrace.trial.execute import execute_trial
from millrace.trial.spec import TrialSpec
from tests.conftest import ServerOf
from tests.support.experiment_files import read_text

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

ROWS = 3_000

FILE = """
name = "replicas"
workload = "replication"
[factors]
source.server = ["{source}"]
replica.server = ["{replica}"]
attach = ["{attach}"]
log_format = ["{log_format}"]
{more}
[compare]
factor = "replica.server"
base = "{replica}"
[parameters]
rows = {rows}
"""


def trial(
    directory: Path,
    server_of: ServerOf,
    *names: str,
    attach: str = "after_load",
    log_format: str = "row",
    more: str = "",
) -> AttemptResult:
    source, replica = names
    text = FILE.format(
        source=source, replica=replica, attach=attach, log_format=log_format, more=more, rows=ROWS
    )
    plan = expand(read_text(directory, text), seed=1)
    servers = {name: server_of(name) for name in names}
    (prepared,) = preparation.treatment_inputs(plan, servers).values()
    expected = datasets.data_checksum("nodes", ROWS, 171773)
    spec = TrialSpec("test/1", prepared.servers, prepared.workload, expected, stops_cleanly=False)
    return execute_trial(spec, lambda _event: None)


def measured(result: AttemptResult, role: str) -> Mapping[str, float]:
    return {each.name: each.value for each in result.measurements if each.role == role}


def test_a_newer_replica_applies_the_statement_that_loaded_its_source(
    tmp_path: Path, server_of: ServerOf
) -> None:
    result = trial(tmp_path, server_of, "mysql-5.7.22", "mysql-8.0.12", log_format="statement")
    assert result.outcome == "finished", result.reason
    names = [step.name for step in result.steps]
    assert names[names.index("finish") :][:4] == ["finish", "apply", "count", "verify"]
    of_replica = measured(result, "replica")
    assert of_replica["replicated_bytes"] > ROWS * 60
    assert of_replica["receive_s"] > 0
    assert of_replica["server_user_s"] > 0
    assert "catch_up_s" not in of_replica
    assert measured(result, "server")["rows"] == ROWS
    formats = {each.role: each.effective["binlog_format"] for each in result.instances}
    assert formats["source"] == "STATEMENT"
    # The defaults of the two versions differ, but the replica's tables must be the source's.
    charsets: dict[str, Level] = {
        each.role: each.effective["character_set_server"] for each in result.instances
    }
    assert charsets == {"source": "latin1", "replica": "latin1"}


def test_a_replica_that_is_attached_before_the_load_catches_up(
    tmp_path: Path, server_of: ServerOf
) -> None:
    names = ("mariadb-10.1.23", "mariadb-10.11.19")
    result = trial(tmp_path, server_of, *names, attach="before_load")
    assert result.outcome == "finished", result.reason
    assert measured(result, "replica")["catch_up_s"] > 0
    (lines,) = (content for kind, _, content in result.artefacts if kind == "lag")
    samples = [json.loads(line) for line in lines.splitlines()]
    assert all(s["applied_bytes"] <= s["written_bytes"] for s in samples)
    assert all(s["lag_s"] >= 0 for s in samples)


WRITES = """
name = "writes"
workload = "replication-writes"
[factors]
server = ["mariadb-10.11.19"]
attach = ["before_load"]
clients = [2]
replica.options.slave_parallel_threads = [2]
[compare]
base = "mariadb-10.11.19"
[parameters]
tables = 2
table_size = 100
operations = 1000
"""


@pytest.mark.parametrize("attach", ["before_load", "after_load"])
def test_a_replica_is_observed_while_it_applies_what_clients_wrote(
    tmp_path: Path, server_of: ServerOf, attach: str
) -> None:
    plan = expand(read_text(tmp_path, WRITES.replace("before_load", attach)), seed=1)
    server = server_of("mariadb-10.11.19")
    (prepared,) = preparation.treatment_inputs(plan, {server.name: server}).values()
    spec = TrialSpec(
        "test/1", prepared.servers, prepared.workload, collectors=("threads",), stops_cleanly=False
    )
    result = execute_trial(spec, lambda _event: None)
    assert result.outcome == "finished", result.reason
    figures, observed = measured(result, "replica"), result.observations["replica"]
    assert figures["replicated_transactions"] == 1000
    # The threads that apply changes count as connections.
    assert any(thread["kind"] == "connection" for thread in observed["threads"]["threads"])
    apply_s = {each.name: each.value for each in result.measurements}["apply_duration_s"]
    assert observed["window_s"] == pytest.approx(apply_s, rel=0.25)


def test_a_replica_that_stops_fails_the_trial_with_its_error(
    tmp_path: Path, server_of: ServerOf
) -> None:
    more = 'engine = ["InnoDB"]\nreplica.options.innodb_read_only = ["ON"]'
    result = trial(tmp_path, server_of, "mysql-5.7.22", "mysql-5.7.22", more=more)
    assert (result.outcome, result.failed_step) == ("failed", "apply"), result.reason
    assert result.reason is not None
    assert "the replica mysql-5.7.22: replication stopped: " in result.reason
