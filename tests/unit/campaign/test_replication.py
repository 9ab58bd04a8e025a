"""Test which pairs of servers can be a source and its replica, before any of them starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.campaign.replication import refuse_impossible
from millrace.errors import ValidationError
from millrace.experiment.model import Plan
from tests.unit.campaign.laboratory import attach_a_server, plan_of

FILE = """
name = "pairs"
workload = "replication"
[factors]
source.server = ["{source}"]
replica.server = ["{replica}"]
gtid = ["{gtid}"]
[compare]
factor = "replica.server"
base = "{replica}"
[parameters]
rows = 10
"""


@pytest.fixture(autouse=True)
def _an_attached_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attach_a_server(tmp_path, monkeypatch)


def plan(directory: Path, source: str, replica: str, gtid: str) -> Plan:
    return plan_of(directory, FILE.format(source=source, replica=replica, gtid=gtid))


def test_a_newer_replica_of_the_same_family_is_possible(tmp_path: Path) -> None:
    refuse_impossible(plan(tmp_path, "mysql-5.7.22", "mysql-8.0.12", "auto"))
    refuse_impossible(plan(tmp_path, "mariadb-10.1.23", "mariadb-10.11.19", "off"))


@pytest.mark.parametrize(
    ("source", "replica", "gtid", "why"),
    [
        ("mysql-8.0.12", "mysql-5.7.22", "auto", "must not be older"),
        ("mysql-5.6.24", "mysql-8.0.12", "auto", "or of the next one"),
        ("mysql-5.6.24", "mariadb-10.11.19", "auto", "between families is not known to work"),
        ("mysql-5.5.34", "mysql-5.5.34", "on", "exist from 5.6.9 on"),
        ("theirs", "mysql-8.0.12", "auto", "on servers that it starts"),
    ],
)
def test_any_other_pair_is_refused_with_its_reason(
    tmp_path: Path, source: str, replica: str, gtid: str, why: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        refuse_impossible(plan(tmp_path, source, replica, gtid))
    assert f"{replica} cannot be a replica of {source}: " in str(raised.value)
    assert why in str(raised.value)
    assert raised.value.hint is not None
