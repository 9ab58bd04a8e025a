"""Test LinkBench on real servers: several loaders and clients, rows and counts afterwards."""

from typing import Any

import pytest

from millrace import workloads
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support import driving

pytestmark = pytest.mark.integration

UNSAFE = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"}  # slow, and no matter here
PARTS = ("tables", "generators", "statements", "tests")
SMALL = {"nodes": 3000, "max_links": 300, "range_limit": 20, "table_options": ""}
PHASES = (
    {"name": "load", "kind": "load_tables", "threads": 4, "chunk_rows": 500},
    {"name": "verify", "kind": "verify_tables"},
    {"name": "warm", "kind": "warm_tables"},
    {
        "name": "measure",
        "kind": "drive",
        "test": "linkbench",
        "clients": 8,
        "protocol": "text",
        "pacing": {"kind": "closed"},
        "warmup": {"kind": "time", "seconds": 0},
        "end": {"kind": "operations", "transactions": 4000},
        "retry": ["1213", "1205"],
    },
)
LINKS, COUNTS = "linkbench.linktable", "linkbench.counttable"
# Links that are there and their counts, of each node and type; hidden ones do not count.
UNEQUAL = f"""
SELECT count(*) FROM (
  SELECT id, link_type, sum(links) AS links, sum(counted) AS counted FROM (
    SELECT id1 AS id, link_type, count(*) AS links, 0 AS counted FROM {LINKS}
    WHERE visibility = 1 GROUP BY id1, link_type
    UNION ALL SELECT id, link_type, 0, count FROM {COUNTS}
  ) AS one GROUP BY id, link_type
) AS both_tables WHERE links <> counted"""


def run(instance: Instance, **chosen: Any) -> dict[str, Any]:
    """Load, verify and drive; return the result of the clients."""
    linkbench = workloads.parse_workload(workloads.load("linkbench"))
    definition = workloads.load("linkbench")
    instance.query("DROP DATABASE IF EXISTS linkbench")
    instance.query("CREATE DATABASE linkbench")
    phases = [{"limit_s": driving.LIMIT_S, **phase} for phase in PHASES]
    connection = driving.by_socket(instance, database="linkbench")
    own = {
        "workload": {key: definition[key] for key in PARTS},
        "defaults": linkbench.defaults(),
        "values": {**SMALL, **chosen},
    }
    done = driving.run({**driving.specification(connection, *phases), **own})
    assert done.status == 0, (done.events[-3:], done.said)
    return done.driven


@pytest.mark.parametrize("name", ["mysql-5.7.22", "mariadb-11.8.9"])
def test_counts_are_those_of_the_links_after_a_run(instance_of: InstanceOf, name: str) -> None:
    with instance_of(name, **UNSAFE) as instance:
        driven = run(instance, partitions=16 if name == "mysql-5.7.22" else 0)
        ((unequal,),) = instance.query(UNEQUAL)
        ((hidden,),) = instance.query(f"SELECT count(*) FROM {LINKS} WHERE visibility = 0")
    assert unequal == "0"
    assert int(hidden or 0) > 0
    assert all(not each["errors"] for each in driven["transactions"])
    of_name = {each["name"]: each for each in driven["statements"]}
    for changed in ("count_up", "add_link_data", "update_link_data", "hide_link", "count_down"):
        assert of_name[changed]["count"] > 0, changed
    assert of_name["hide_link"]["count"] == of_name["hide_link"]["affected_rows"]
