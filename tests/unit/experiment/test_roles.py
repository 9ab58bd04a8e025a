"""Test experiments whose trials have several servers, each in a role of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.campaign.inputs import configuration_of, servers_of, varied_options
from millrace.errors import ValidationError
from millrace.experiment.model import Experiment
from millrace.experiment.plan import expand
from millrace.experiment.read import Overrides
from tests.unit.experiment.files import read_text

FILE = """
name = "roles"
workload = "replication"
blocks = 3
[factors]
{factors}
[compare]
{compare}
[parameters]
rows = 1000
"""


def experiment(
    directory: Path,
    factors: str,
    compare: str = 'base = "mysql-5.6.24"',
    overrides: Overrides | None = None,
) -> Experiment:
    text = FILE.format(factors=factors, compare=compare)
    return read_text(directory, text, overrides=overrides or Overrides())


def test_both_roles_share_a_server_unless_they_name_their_own(tmp_path: Path) -> None:
    shared = experiment(tmp_path, 'server = ["mysql-5.6.24", "mysql-5.7.22"]')
    pairs = [servers_of(shared, each) for each in expand(shared, seed=1).treatments]
    assert pairs == [
        {"source": "mysql-5.6.24", "replica": "mysql-5.6.24"},
        {"source": "mysql-5.7.22", "replica": "mysql-5.7.22"},
    ]
    own = experiment(
        tmp_path,
        'source.server = ["mysql-5.6.24"]\nreplica.server = ["mysql-5.6.24", "mysql-5.7.22"]',
        'factor = "replica.server"\nbase = "mysql-5.6.24"',
    )
    pairs = [servers_of(own, each) for each in expand(own, seed=1).treatments]
    assert [pair["replica"] for pair in pairs] == ["mysql-5.6.24", "mysql-5.7.22"]
    assert {pair["source"] for pair in pairs} == {"mysql-5.6.24"}


def test_a_role_has_options_and_a_configuration_of_its_own(tmp_path: Path) -> None:
    found = experiment(
        tmp_path,
        """
        server = ["mysql-5.6.24"]
        options.sync_binlog = [0]
        replica.configuration = ["wmf"]
        replica.options.slave_parallel_workers = [0, 4]
        """,
        'factor = "replica.options.slave_parallel_workers"\nbase = 0',
    )
    treatments = expand(found, seed=1).treatments
    assert [varied_options(each, "source") for each in treatments] == [{"sync_binlog": 0}] * 2
    assert [varied_options(each, "replica") for each in treatments] == [
        {"sync_binlog": 0, "slave_parallel_workers": workers} for workers in (0, 4)
    ]
    named = [
        configuration_of(found, treatments[0], role, family="mysql", version="5.6.24").name
        for role in ("source", "replica")
    ]
    assert named == ["default", "wmf"]


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ('source.server = ["mysql-5.6.24"]', "factors.replica.server: is missing"),
        ('server = ["mysql-5.6.24"]\nother.server = ["mysql-5.6.24"]', "has no role 'other'"),
        ('server = ["mysql-5.6.24"]\nother.options.log_bin = [true]', "has no role 'other'"),
        (
            'server = ["mysql-5.6.24"]\nreplica.options.skip_log_bin = [true]',
            "is the negated form of the switch 'log_bin'",
        ),
        (
            """
            server = ["mysql-5.6.24"]
            source.server = ["mysql-5.6.24"]
            replica.server = ["mysql-5.6.24"]
            """,
            "factors.server: has no effect: source.server and replica.server take its place",
        ),
    ],
)
def test_a_role_that_is_missing_or_unknown_is_a_mistake(
    tmp_path: Path, factors: str, said: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        experiment(tmp_path, factors)
    assert said in str(raised.value)


def test_servers_that_work_at_the_same_time_take_no_turns(tmp_path: Path) -> None:
    factors = 'server = ["mysql-5.6.24", "mysql-5.7.22"]'
    assert not experiment(tmp_path, factors).slices
    with pytest.raises(ValidationError, match="source and replica, which work at the same time"):
        expand(experiment(tmp_path, factors, overrides=Overrides(slices=True)), seed=1)
