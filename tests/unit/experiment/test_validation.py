"""Test what a file says beside levels: option files, servers in roles, and TLS."""

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.campaign.inputs import configuration_of, servers_of, varied_options
from millrace.errors import UserError, ValidationError
from millrace.experiment.model import Experiment
from millrace.experiment.plan import expand
from millrace.experiment.read import NO_OVERRIDES, Overrides
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance, with_tls
from millrace.tls import Tls
from tests.support import experiment_files as files

WITH_FILE = (
    files.SMALL.replace("[compare]", 'configuration = ["default", "mine"]\n\n[compare]')
    + """
[configurations.mine]
title = "what we run"
extends = "wmf"
file = "conf/my.cnf"
[configurations.mine.options]
max_connections = 300
"""
)


def test_option_file_is_a_layer_below_the_options_written_with_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "my.cnf").write_text("[mysqld]\nmax_connections = 4000\nport = 1\n")
    experiment = files.read_text(tmp_path, WITH_FILE)
    used = {name: each.to_json() for name, each in experiment.configurations.items()}
    assert list(used)[:4] == ["default", "mine", "mine (conf/my.cnf)", "wmf"]
    assert used["mine"]["extends"] == "mine (conf/my.cnf)"
    assert used["mine (conf/my.cnf)"]["extends"] == "wmf"
    assert used["mine (conf/my.cnf)"]["optional"] == {"max_connections": "4000"}
    assert used["mine (conf/my.cnf)"]["left_out"]["port"]["value"] == "1"
    assert used["mine"]["options"] == {"max_connections": 300}


def test_treatments_change_when_the_option_file_changes(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    ids = []
    for connections in (10, 20):
        (tmp_path / "conf" / "my.cnf").write_text(f"[mysqld]\nback_log = {connections}\n")
        plan = expand(files.read_text(tmp_path, WITH_FILE), seed=1)
        ids.append({each.id for each in plan.treatments})
    assert len(ids[0] - ids[1]) == 2  # of two servers with it; those with the defaults stay


def test_missing_option_file_is_reported() -> None:
    with pytest.raises(UserError, match=r"option file .*conf/my\.cnf does not exist"):
        files.parsed(WITH_FILE)


def test_path_of_an_option_file_must_be_text() -> None:
    [found] = files.mistakes_of(WITH_FILE.replace('"conf/my.cnf"', "3"))
    assert (found.where, found.message) == ("configurations.mine.file", "is not text")


ROLES = files.experiment_text("replication", servers=(), blocks=3, parameters={"rows": 1000})


def in_roles(
    factors: str, compare: str = 'base = "mysql-5.6.24"', overrides: Overrides = NO_OVERRIDES
) -> Experiment:
    text = ROLES.replace("[compare]", f"{factors}\n[compare]").replace('base = ""', compare)
    return files.parsed(text, overrides=overrides)


def test_both_roles_share_a_server_unless_they_name_their_own() -> None:
    shared = in_roles('server = ["mysql-5.6.24", "mysql-5.7.22"]')
    pairs = [servers_of(shared, each) for each in expand(shared, seed=1).treatments]
    assert pairs == [
        {"source": "mysql-5.6.24", "replica": "mysql-5.6.24"},
        {"source": "mysql-5.7.22", "replica": "mysql-5.7.22"},
    ]
    own = in_roles(
        'source.server = ["mysql-5.6.24"]\nreplica.server = ["mysql-5.6.24", "mysql-5.7.22"]',
        'factor = "replica.server"\nbase = "mysql-5.6.24"',
    )
    pairs = [servers_of(own, each) for each in expand(own, seed=1).treatments]
    assert [pair["replica"] for pair in pairs] == ["mysql-5.6.24", "mysql-5.7.22"]
    assert {pair["source"] for pair in pairs} == {"mysql-5.6.24"}


def test_a_role_has_options_and_a_configuration_of_its_own() -> None:
    found = in_roles(
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
            "factors.server: has no effect: source.server and replica.server replace it",
        ),
    ],
)
def test_a_role_that_is_missing_or_unknown_is_a_mistake(factors: str, said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        in_roles(factors)
    assert said in str(raised.value)


def test_servers_that_work_at_the_same_time_take_no_turns() -> None:
    factors = 'server = ["mysql-5.6.24", "mysql-5.7.22"]'
    assert not in_roles(factors).slices
    with pytest.raises(ValidationError, match="at the same time: source and replica"):
        expand(in_roles(factors, overrides=Overrides(slices=True)), seed=1)


WITH_STAGING = replace(
    files.CONTEXT, servers=[*files.CONTEXT.servers, "staging"], attached=["staging"]
)


def read_tls(table: str) -> Tls:
    text = f"{files.SMALL}\n[tls.staging]\n{table}\n"
    return files.parsed(text, context=WITH_STAGING).tls["staging"]


def test_experiment_defines_tls_of_an_attached_server() -> None:
    asked = read_tls('mode = "verify-ca"\nca = "/etc/ssl/our ca.pem"')
    assert asked == Tls("verify-ca", Path("/etc/ssl/our ca.pem"))
    assert read_tls('mode = "required"\nallow_unverified = true').allow_unverified
    for dsn in (
        "mysql://me:a%40b@db.test/?tls=required&allow-unverified=yes",
        "mysql://me:a%40b@db.test/?tls=verify-identity&ca=/other.pem",
        "mysql://me:a%40b@/?socket=/run/mysqld.sock",
    ):
        reached = AttachedInstance(with_tls(AttachedServer("staging", "mysql", dsn), asked))
        assert (reached.tls, reached.password) == (asked, "a@b")
        assert reached.socket == (Path("/run/mysqld.sock") if "socket" in dsn else None)


@pytest.mark.parametrize(
    ("table", "where", "said"),
    [
        ("", "tls.staging.mode", "is missing"),
        ('mode = "on"', "tls.staging.mode", '"on" is not a mode'),
        ('mode = "required"\nca = "/ca.pem"', "tls.staging.ca", "has no effect with mode required"),
        ('mode = "verify-ca"', "tls.staging.ca", "is missing"),
        ('mode = "verify-ca"\nca = "ca.pem"', "tls.staging.ca", "not an absolute"),
        ('mode = "verify-ca"\nca = 3', "tls.staging.ca", "not an absolute"),
        (
            'mode = "required"\nallow_unverified = "yes"',
            "tls.staging.allow_unverified",
            'got "yes"',
        ),
        ('mode = "required"\nkey = "x"', "tls.staging.key", "unknown key"),
        (
            'mode = "required"\n[tls.other]\nmode = "required"',
            "tls.other",
            "not an attached server",
        ),
    ],
)
def test_a_mistake_is_named_at_its_place(table: str, where: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said) as caught:
        read_tls(table)
    assert [each.where for each in caught.value.diagnostics] == [where]


@pytest.mark.parametrize(
    "asked",
    [
        {"mode": "on"},
        {"mode": "verify-ca"},
        {"mode": "verify-identity", "ca": "ca.pem"},
        {"mode": "required", "ca": "/ca.pem"},
        {"mode": "disabled", "ca": "/ca.pem"},
    ],
    ids=str,
)
def test_an_address_is_held_to_the_same_rules_in_the_same_words(asked: dict[str, str]) -> None:
    table = "\n".join(f'{key} = "{value}"' for key, value in asked.items())
    with pytest.raises(ValidationError) as of_table:
        read_tls(table)
    query = "&".join(f"{key}={value}" for key, value in asked.items()).replace("mode=", "tls=")
    with pytest.raises(UserError) as of_address:
        AttachedInstance(AttachedServer("staging", "mysql", f"mysql://me:x@db.test/?{query}"))
    (mistake,) = of_table.value.diagnostics
    said = f"{mistake.message}; expected {mistake.expected}"
    assert said.replace('"', "'") in of_address.value.message
