from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.errors import UserError
from millrace.model.servers import Configuration
from millrace.quantities import parse_size
from millrace.servers import configurations
from millrace.servers.configurations.resolve import SizeRule

GIB = 1 << 30
BUILTIN = configurations.load_builtin()
PUBLISHED_DATA_BYTES = 3_700_635_579

POOL: SizeRule = {
    "published": "12G",
    "per_data_byte": 3.5,
    "minimum": "128M",
    "host_memory_share": 0.8,
}


def resolve(
    name: str,
    *,
    server: str = "mysql-5.6.24",
    definitions: dict[str, Any] | None = None,
    data_bytes: int = PUBLISHED_DATA_BYTES,
    host_memory_bytes: int = 64 * GIB,
) -> Configuration:
    family, version = server.split("-")
    return configurations.resolve(
        name,
        family=family,
        version=version,
        definitions={**BUILTIN, **(definitions or {})},
        data_bytes=data_bytes,
        host_memory_bytes=host_memory_bytes,
    )


def values(configuration: Configuration) -> dict[str, str | None]:
    return {option.name: option.value for option in configuration.options}


def test_the_shipped_configurations_have_no_mistakes() -> None:
    assert configurations.check(BUILTIN) == []
    assert {"default", "wmf", "wmf-mariadb", "insecure", "s2-throughput"} <= BUILTIN.keys()


def test_default_has_no_options() -> None:
    assert resolve("default").options == ()


# The lists of the study, as published; MySQL 5.7 additionally needs server_id.
WMF = (
    "skip_external_locking skip_name_resolve temp_pool read_only max_connections back_log "
    "max_connect_errors max_allowed_packet connect_timeout query_cache_size query_cache_type "
    "event_scheduler log_warnings thread_stack thread_cache_size interactive_timeout wait_timeout "
    "transaction_isolation log_bin log_slave_updates sync_binlog binlog_cache_size max_binlog_size "
    "binlog_format expire_logs_days slave_transaction_retries tmp_table_size max_heap_table_size "
    "table_open_cache table_definition_cache open_files_limit optimizer_switch "
    "character_set_server character_set_filesystem collation_server default_storage_engine "
    "innodb_file_per_table innodb_buffer_pool_size innodb_log_file_size "
    "innodb_flush_log_at_trx_commit innodb_flush_method innodb_thread_concurrency "
    "innodb_io_capacity innodb_stats_method innodb_buffer_pool_load_at_startup "
    "innodb_buffer_pool_dump_at_shutdown performance_schema"
)
WMF_INSTRUMENTS = (
    "max_thread_instances max_cond_instances accounts_size hosts_size "
    "events_statements_history_size events_statements_history_long_size "
    "events_waits_history_size events_waits_history_long_size events_stages_history_size "
    "events_stages_history_long_size max_mutex_instances max_rwlock_instances "
    "max_socket_instances max_table_instances"
)
INSECURE = (
    "max_connections query_cache_size query_cache_type sql_mode default_storage_engine "
    "innodb_file_per_table innodb_buffer_pool_size innodb_log_file_size "
    "innodb_flush_log_at_trx_commit performance_schema innodb_doublewrite innodb_flush_neighbors "
    "innodb_checksum_algorithm skip_log_bin"
)


def test_wmf_is_complete_and_has_the_published_sizes_at_the_published_scale() -> None:
    found = values(resolve("wmf"))
    instruments = {f"performance_schema_{name}" for name in WMF_INSTRUMENTS.split()}
    assert found.keys() == {*WMF.split(), *instruments, "server_id"}
    assert found["innodb_buffer_pool_size"] == "12G"
    assert found["innodb_log_file_size"] == "2G"
    assert found["skip_name_resolve"] is None


def test_insecure_is_complete_and_has_the_published_sizes_at_the_published_scale() -> None:
    found = values(resolve("insecure"))
    assert found.keys() == set(INSECURE.split())
    assert (found["innodb_buffer_pool_size"], found["innodb_log_file_size"]) == ("12G", "2G")
    assert found["sql_mode"] == ""


def test_small_data_gets_small_memory_and_redo() -> None:
    found = values(resolve("wmf", data_bytes=1_600_000))
    assert (found["innodb_buffer_pool_size"], found["innodb_log_file_size"]) == ("128M", "48M")


@pytest.mark.parametrize("server", ["mysql-8.0.33", "mariadb-10.11.19", "mysql-5.7.22"])
def test_every_server_gets_the_same_room_for_redo(server: str) -> None:
    family, version = server.split("-")
    configuration = resolve("insecure", server=server)
    assert databases.get(family).options.log_bytes(configuration, version) == 4 * GIB


def test_what_a_version_cannot_have_is_taken_out_with_its_reason() -> None:
    new = resolve("insecure", server="mariadb-10.11.19")
    assert "innodb_checksum_algorithm" not in values(new)
    left = next(left for left in new.left_out if left.option.name == "innodb_checksum_algorithm")
    assert left.option.value == "none"
    assert "10.6" in left.reason
    assert values(resolve("insecure", server="mariadb-10.2.11"))["innodb_checksum_algorithm"] == (
        "none"
    )


def test_family_tables_apply_to_their_family_only() -> None:
    assert "thread_handling" in values(resolve("wmf-mariadb", server="mariadb-10.1.23"))
    assert values(resolve("wmf-mariadb")) == values(resolve("wmf"))


def test_layers_replace_values_keep_places_and_name_their_origin() -> None:
    definitions = {
        "low": {"options": {"a": 1, "log_bin": "x", "c": 1}},
        "high": {"extends": "low", "optional": {"a": 2}, "options": {"skip-log-bin": True}},
    }
    options = resolve("high", definitions=definitions).options
    assert [(o.name, o.value, o.optional, o.layer) for o in options] == [
        ("a", "2", True, "high"),
        ("skip_log_bin", None, False, "high"),
        ("c", "1", False, "low"),
    ]


@pytest.mark.parametrize(
    ("version", "value"), [("10.5.29", "1"), ("10.6.0", "2"), ("10.11.5", "2"), ("11.4", "1")]
)
def test_when_holds_from_one_version_and_below_another(version: str, value: str) -> None:
    when = {"family": "mariadb", "from": "10.6", "below": "11", "why": "w", "options": {"a": 2}}
    definitions = {"mine": {"options": {"a": 1}, "when": [when]}}
    found = resolve("mine", server=f"mariadb-{version}", definitions=definitions)
    assert values(found) == {"a": value}
    assert values(resolve("mine", server=f"mysql-{version}", definitions=definitions)) == {"a": "1"}


def test_an_unknown_configuration_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'insecure'"):
        resolve("insecur")


@given(st.integers(0, 10**11), st.integers(GIB, 1024 * GIB))
def test_a_scaled_size_stays_between_its_bounds(data_bytes: int, memory_bytes: int) -> None:
    size = parse_size(
        configurations.scaled(POOL, data_bytes=data_bytes, host_memory_bytes=memory_bytes)
    )
    assert 128 << 20 <= size <= 12 * GIB
    assert size <= max(0.8 * memory_bytes, 128 << 20)
    assert size % (128 << 20) == 0


@given(st.integers(0, 10**11), st.integers(0, 10**10))
def test_more_data_never_gets_less(data_bytes: int, more: int) -> None:
    def scaled(data: int) -> int:
        return parse_size(configurations.scaled(POOL, data_bytes=data, host_memory_bytes=64 * GIB))

    assert scaled(data_bytes) <= scaled(data_bytes + more)


@given(st.integers(4 * GIB, 64 * GIB))
def test_a_pool_that_fits_the_host_holds_the_data(memory_bytes: int) -> None:
    size = parse_size(
        configurations.scaled(POOL, data_bytes=200_000_000, host_memory_bytes=memory_bytes)
    )
    assert size >= 3.5 * 200_000_000


def test_a_plain_size_is_fixed() -> None:
    definitions = {"mine": {"extends": "wmf", "options": {"innodb_buffer_pool_size": "3G"}}}
    for data_bytes in (0, PUBLISHED_DATA_BYTES):
        found = resolve("mine", definitions=definitions, data_bytes=data_bytes)
        assert values(found)["innodb_buffer_pool_size"] == "3G"


@pytest.mark.parametrize(
    ("definition", "where", "message"),
    [
        ({"extend": "wmf"}, "extend", "unknown key"),
        ({"extends": "wfm"}, "extends", "unknown configuration 'wfm'"),
        ({"extends": "mine"}, "extends", "extends itself"),
        ({"title": 1}, "title", "not text"),
        ({"options": []}, "options", "not a table"),
        ({"options": {"port": 1}}, "options.port", "set by millrace"),
        ({"options": {"log_bin": False}}, "options.log_bin", "ambiguous"),
        ({"options": {"a": [1]}}, "options.a", "wrong type"),
        ({"options": {"a b": 1}}, "options.a b", "not an option name"),
        ({"options": {"a-b": 1, "a_b": 2}}, "options.a_b", "same option"),
        ({"options": {"a": 1}, "optional": {"skip_a": True}}, "optional.skip_a", "same option"),
        ({"options": {"a": {"published": "x"}}}, "options.a.published", "not a size"),
        ({"options": {"a": {**POOL, "minimun": "1M"}}}, "options.a.minimun", "unknown key"),
        (
            {"options": {"a": {**POOL, "host_memory_share": 2}}},
            "options.a.host_memory_share",
            "out of range",
        ),
        ({"mysql": {"option": {}}}, "mysql.option", "unknown key"),
        ({"mariadb": 1}, "mariadb", "not a table"),
        ({"when": {}}, "when", "not a list of tables"),
        ({"when": [{"family": "mysql", "why": "x"}]}, "when[0]", "names no version"),
        (
            {"when": [{"family": "mysql", "from": 10.6, "why": "x"}]},
            "when[0].from",
            "not a version",
        ),
        ({"when": [{"family": "mysql", "from": "8"}]}, "when[0].why", "missing"),
        ({"when": [{"family": "x", "from": "8", "why": "x"}]}, "when[0].family", "unknown"),
        (
            {"when": [{"family": "mysql", "from": "8", "why": "x", "without": "a"}]},
            "when[0].without",
            "not a list",
        ),
    ],
)
def test_each_mistake_is_found_at_its_place(
    definition: dict[str, Any], where: str, message: str
) -> None:
    diagnostics = configurations.check({"mine": definition}, BUILTIN)
    found = [m for m in diagnostics if m.where == f"configurations.mine.{where}"]
    assert found, diagnostics
    assert any(message in mistake.message for mistake in found)


_AWAY = "is a path outside of the server's own directories"
_OURS = "set by millrace"
_CLUSTER = "is for clusters"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("innodb_data_home_dir", "/home/me", _AWAY),
        ("loose-innodb-log-group-home-dir", "/home/me", _AWAY),
        ("innodb_undo_directory", "../../..", _AWAY),
        ("innodb_tmpdir", "~/tmp", _AWAY),
        ("innodb_data_file_path", "ibdata1:12M;/home/me/.bashrc:12M", _AWAY),
        ("plugin_load_add", "x=/tmp/x.so", _AWAY),
        ("plugin_load", "../../tmp/x.so", _AWAY),
        ("plugin_dir", "x", _OURS),
        ("loose_plugin_dir", "x", _OURS),
        ("language", "x", _OURS),
        ("chroot", "x", _OURS),
        ("daemonize", True, _OURS),
        ("mysqlx_bind_address", "*", _OURS),
        ("extra_port", 2222, _OURS),
        ("wsrep_notify_cmd", "touch x", _CLUSTER),
        ("wsrep_provider", "x.so", _CLUSTER),
        ("group_replication_local_address", "h:1", _CLUSTER),
        ("init_connect", "SET\0x", "control characters"),
        ("init_connect", "x" * 200_000, "has 200000 characters"),
    ],
)
def test_no_option_leads_to_files_of_the_user(name: str, value: str | int, why: str) -> None:
    (found,) = configurations.check({"mine": {"options": {name: value}}}, BUILTIN)
    assert (found.where, why in found.message) == (f"configurations.mine.options.{name}", True)
    level = list(configurations.check_varied_option("options.x", name, value))
    assert level


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("general_log_file", "/var/log/all.log"),  # the file's name alone counts
        ("log_bin", "/logs/binlog"),
        ("innodb_undo_directory", "undo"),
        ("innodb_data_file_path", "ibdata1:12M;ibdata2:50M:autoextend"),
        ("ssl_ca", "/etc/ssl/ca.pem"),
        ("performance_schema_instrument", "wait/io/file/%=ON"),
        ("plugin_load_add", "ha_rocksdb"),
        ("date_format", "%d/%m/%Y"),
    ],
)
def test_options_within_the_servers_own_directories_are_its_own(name: str, value: str) -> None:
    assert configurations.check({"mine": {"options": {name: value}}}, BUILTIN) == []


@pytest.mark.parametrize(
    ("server", "configuration", "expected"),
    [
        ("mysql-5.7.22", "default", False),
        ("mysql-8.0.12", "default", True),
        ("mysql-8.0.12", "insecure", False),
        ("mysql-5.6.24", "wmf", True),
        ("mariadb-11.4.5", "default", False),
    ],
)
def test_who_keeps_a_binary_log(server: str, configuration: str, expected: bool) -> None:
    family, version = server.split("-")
    resolved = resolve(configuration, server=server)
    found = databases.get(family).options.keeps_binary_log(resolved, version)
    assert found is expected
