"""Test the options that real servers list, and configurations fitted to them."""

import json
from pathlib import Path

import pytest

from millrace import databases
from millrace.analysis.explain.causes.known import needed
from millrace.errors import UserError
from millrace.model.servers import Configuration, Option
from millrace.servers import options
from millrace.servers.instances import lifecycle
from tests.conftest import Initialise, InstanceOf, ServerOf

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-5.7.22", "mariadb-10.11.19"])
def test_options_come_from_the_program(server_of: ServerOf, name: str) -> None:
    server = server_of(name)
    known, rules = options.known(server), databases.get(server.family).options
    assert {"innodb_buffer_pool_size", "log_bin", "sync_binlog", "port"} <= known.names
    assert known.defaults["innodb_buffer_pool_size"] == "134217728"
    assert options.knows(rules, known, "skip_log_bin")
    assert options.knows(rules, known, "innodb_checksum_algorithm")
    assert not options.knows(rules, known, "innodb_bufer_pool_size")


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19"])
def test_refused_values_come_from_the_program(server_of: ServerOf, name: str) -> None:
    server = server_of(name)
    assert options.refuses(server, "binlog_format", "nonsense")
    assert options.refuses(server, "innodb_stats_method", "nonsense")
    assert not options.refuses(server, "innodb_flush_method", "O_DIRECT")
    assert not options.refuses(server, "skip_log_bin", None)
    assert not options.refuses(server, "an_option_that_it_does_not_have", "nonsense")


def test_servers_differ(server_of: ServerOf) -> None:
    old, new = options.known(server_of("mysql-5.6.24")), options.known(server_of("mysql-5.7.22"))
    assert "innodb_page_cleaners" in new.names - old.names
    assert "innodb_additional_mem_pool_size" in old.names - new.names


def test_options_are_cached_and_read_again_when_damaged(
    server_of: ServerOf, own_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of("mysql-5.6.24")
    cache = own_places / "cache"
    monkeypatch.setenv("MILLRACE_CACHE", str(cache))
    asked = options.known(server)
    (kept,) = (cache / "options").iterdir()
    data = json.loads(kept.read_text(encoding="utf-8"))
    kept.write_text(json.dumps({**data, "names": [*data["names"], "made_up"]}), encoding="utf-8")
    assert options.known(server).names == asked.names | {"made_up"}
    kept.write_text("{", encoding="utf-8")
    assert options.known(server) == asked


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mysql-5.7.22", {"log_bin": "ON"}),
        ("mysql-5.6.24", {"log_bin": "ON", "gtid_mode": "ON"}),
        ("mysql-5.7.22", {"log_bin": "ON", "gtid_mode": "ON"}),
    ],
)
def test_a_server_starts_with_a_setting_and_what_that_needs(
    instance_of: InstanceOf, name: str, values: dict[str, str]
) -> None:
    given = {**values, "log_bin": None, **needed(values)}
    with instance_of(name, **given) as instance:
        effective = instance.settings()
    assert {key: effective[key] for key in values} == values


def test_a_fitted_configuration_starts_and_is_effective(
    server_of: ServerOf, initialise: Initialise
) -> None:
    server = server_of("mysql-5.7.22")
    wanted = Configuration(
        "mine",
        (
            Option("innodb-log-file-size", "8M", False, "mine"),
            Option("skip_name_resolve", None, False, "mine"),
            Option("aria_pagecache_buffer_size", "16M", True, "mine"),
        ),
    )
    fitted = options.fit(server, wanted)
    assert [(left.option.name, left.reason) for left in fitted.left_out] == [
        ("aria_pagecache_buffer_size", "mysql-5.7.22 has no option aria_pagecache_buffer_size")
    ]
    with lifecycle.create(server, fitted) as instance:
        initialise(instance)
        instance.start(60)
        effective = instance.settings()
        instance.kill()
    assert effective["innodb_log_file_size"] == str(8 << 20)
    assert effective["skip_name_resolve"] == "ON"


def test_an_unknown_option_is_refused_before_anything_starts(server_of: ServerOf) -> None:
    wanted = Configuration("mine", (Option("innodb_bufer_pool_size", "1G", False, "mine"),))
    with pytest.raises(UserError, match=r"nearest: innodb_buffer_pool_size\b"):
        options.fit(server_of("mysql-5.6.24"), wanted)


@pytest.mark.parametrize("name", ["port", "skip_grant_tables", "secure-file-priv", "loose_datadir"])
def test_options_of_millrace_are_refused(server_of: ServerOf, name: str) -> None:
    wanted = Configuration("mine", (Option(name, "1", True, "base"),))
    with pytest.raises(UserError, match="millrace sets these options itself"):
        options.fit(server_of("mysql-5.6.24"), wanted)
