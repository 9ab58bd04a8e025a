"""Test the facts about settings: which value costs more, and whether the data is consistent."""

import pytest

from millrace.analysis.explain.causes.known import Setting, known, needed
from millrace.analysis.explain.function_groups import groups


def setting(name: str, topic: str = "") -> Setting:
    found = [each for each in known().topic if topic in ("", each.name)]
    return next(each for of in found for each in of.settings if name in each.names)


@pytest.mark.parametrize(
    ("name", "cheap", "dear"),
    [
        ("log_bin", "OFF", "ON"),
        ("innodb_flush_log_at_trx_commit", "2", "1"),
        ("innodb_flush_log_at_trx_commit", "0", "2"),
        ("innodb_buffer_pool_size", "1G", "134217728"),
        ("innodb_doublewrite", "OFF", "ON"),
        ("innodb_doublewrite", "0", "1"),
        ("innodb_doublewrite", "DETECT_ONLY", "ON"),
        ("innodb_checksum_algorithm", "crc32", "innodb"),
        ("query_cache_type", "ON", "OFF"),
        ("long_query_time", "10.000000", "0.000000"),
        ("innodb_log_file_size", "1073741824", "104857600"),
        ("tls", "false", "true"),
        ("clients", "1", "16"),
    ],
)
def test_the_dearer_value(name: str, cheap: str, dear: str) -> None:
    needs = {"slow_query_log": "ON", "log_bin": "ON"}
    one, other = {**needs, name: cheap}, {**needs, name: dear}
    assert setting(name).is_dearer(one, other)
    assert not setting(name).is_dearer(other, one)
    assert not setting(name).is_dearer(other, other)


@pytest.mark.parametrize(
    ("cheap", "dear"), [("0", "1"), ("0", "100"), ("100", "1"), ("1000", "100")]
)
def test_a_rate(cheap: str, dear: str) -> None:
    one, other = ({"log_bin": "ON", "sync_binlog": value} for value in (cheap, dear))
    assert setting("sync_binlog").is_dearer(one, other)
    assert not setting("sync_binlog").is_dearer(other, one)


def test_spellings_of_a_value_are_the_same() -> None:
    assert not setting("performance_schema").is_dearer(
        {"performance_schema": "0"}, {"performance_schema": "OFF"}
    )
    assert not setting("innodb_buffer_pool_size").is_dearer(
        {"innodb_buffer_pool_size": "1G"}, {"innodb_buffer_pool_size": "1073741824"}
    )
    assert not setting("optimizer_switch").is_dearer(
        {"optimizer_switch": "mrr=on,index_merge=off"},
        {"optimizer_switch": "index_merge=off,mrr=on"},
    )


def test_what_a_setting_needs() -> None:
    assert needed({"log_bin": "ON", "sync_binlog": "1"}) == {"server_id": "1"}
    assert needed({"log_bin": "ON", "server_id": "7"}) == {}
    assert needed({"log_bin": "OFF"}) == {}
    assert needed({"gtid_mode": "ON"}).keys() == {"enforce_gtid_consistency", "log_slave_updates"}
    assert needed({"innodb_doublewrite": "ON"}) == {}


def test_what_a_server_does_not_have() -> None:
    assert setting("performance_schema").is_dearer({}, {"performance_schema": "ON"})
    assert not setting("innodb_page_cleaners").is_dearer({}, {"innodb_page_cleaners": "1"})


def test_what_is_set_is_neither_empty_nor_off() -> None:
    monitor = setting("innodb_monitor_enable")
    nothing = [{}, *({"innodb_monitor_enable": value} for value in ("", "OFF", "0"))]
    for one in nothing:
        for other in nothing:
            assert not monitor.is_dearer(one, other)
        assert monitor.is_dearer(one, {"innodb_monitor_enable": "all"})


def test_threads_that_write_the_log_where_nobody_can_switch_them() -> None:
    writers = setting("innodb_log_writer_threads")
    without: dict[str, str] = {}
    always = {"innodb_log_spin_cpu_abs_lwm": "80"}
    switched = [{**always, "innodb_log_writer_threads": value} for value in ("OFF", "ON")]
    assert writers.is_dearer(without, always)
    assert writers.is_dearer(without, switched[1])
    assert not writers.is_dearer(without, switched[0])
    assert not writers.is_dearer(always, switched[1])


def redo_log(capacity: str | None = None, **variables: str) -> dict[str, str]:
    return variables | ({} if capacity is None else {"log_capacity_bytes": capacity})


def test_redo_logs_are_compared_by_their_capacity() -> None:
    capacity = setting("innodb_redo_log_capacity")
    files = redo_log(innodb_log_file_size="268435456", innodb_log_files_in_group="2")
    # The server made 512 MB of the same files, which its variable does not show.
    computed = redo_log("536870912", innodb_redo_log_capacity="104857600")
    fallen_back = redo_log("104857600", innodb_redo_log_capacity="104857600")
    assert capacity.value(files) == capacity.value(computed) == "536870912"
    assert not capacity.is_dearer(files, computed)
    assert capacity.is_dearer(files, fallen_back)
    assert not capacity.is_dearer(fallen_back, files)
    # Nobody read the capacity: nothing is known of it.
    assert capacity.value(redo_log(innodb_redo_log_capacity="104857600")) is None


def test_a_capacity_as_the_option_of_each_server() -> None:
    capacity = setting("innodb_redo_log_capacity")
    files = redo_log(innodb_log_file_size="268435456", innodb_log_files_in_group="2")
    assert capacity.option_value("536870912", files) == "268435456"
    one = redo_log("104857600", innodb_redo_log_capacity="104857600")
    assert capacity.option_value("536870912", one) == "536870912"


def test_a_delay_of_mariadb_counts_only_with_a_count() -> None:
    usec = setting("binlog_commit_wait_usec")
    one = {"log_bin": "ON", "binlog_commit_wait_usec": "0"}
    other = {"log_bin": "ON", "binlog_commit_wait_usec": "100000"}
    assert not usec.is_dearer(one, other)
    assert not usec.is_dearer(one, other | {"binlog_commit_wait_count": "0"})
    assert usec.is_dearer(one, other | {"binlog_commit_wait_count": "2"})
    delay = setting("binlog_group_commit_sync_delay")
    mysql = {"log_bin": "ON", "binlog_group_commit_sync_delay": "0"}
    assert not delay.is_dearer(mysql, other)
    assert delay.is_dearer(other, mysql | {"binlog_group_commit_sync_delay": "100"})


def test_a_server_without_an_engine_for_temporary_tables_works_as_with_memory() -> None:
    engine = setting("internal_tmp_mem_storage_engine")
    old = {"internal_tmp_disk_storage_engine": "InnoDB"}
    assert engine.value(old) == "MEMORY"
    assert engine.name_in(old) is None
    assert engine.is_dearer(old, {"internal_tmp_mem_storage_engine": "TempTable"})
    assert not engine.is_dearer(old, {"internal_tmp_mem_storage_engine": "MEMORY"})


@pytest.mark.parametrize(
    "names",
    [
        ("binlog_group_commit_sync_delay", "binlog_commit_wait_usec"),
        ("internal_tmp_mem_storage_engine", "internal_tmp_disk_storage_engine"),
        ("innodb_old_blocks_pct", "innodb_old_blocks_time"),
        ("innodb_io_capacity", "innodb_io_capacity_max"),
        ("innodb_data_file_buffering", "innodb_data_file_write_through"),
        ("tmp_table_size", "temptable_max_ram"),
        ("innodb_encrypt_tables", "default_table_encryption"),
        ("server_audit_logging", "audit_log_policy"),
        ("binlog_transaction_compression", "log_bin_compress"),
        ("tls_version", "ssl_cipher"),
    ],
)
def test_variables_that_mean_something_else_are_settings_of_their_own(
    names: tuple[str, str],
) -> None:
    one, other = map(setting, names)
    assert one.names == names[:1]
    assert other.names == names[1:]


def test_settings_of_one_name_are_renamed_alone() -> None:
    """Only what the manuals call the same variable under another name is one setting."""
    several = {each.names for topic in known().topic for each in topic.settings}
    assert {names for names in several if len(names) > 1} == {
        ("binlog_rows_query_log_events", "binlog_annotate_row_events"),
        ("innodb_adaptive_hash_index_parts", "innodb_adaptive_hash_index_partitions"),
        ("innodb_redo_log_capacity", "innodb_log_file_size"),  # compared by their capacity
        ("rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"),
        ("table_open_cache", "table_cache"),
        ("transaction_isolation", "tx_isolation"),
    }


def test_an_empty_value_is_the_one_that_it_stands_for() -> None:
    method = setting("innodb_flush_method")
    empty, same, other = ({"innodb_flush_method": value} for value in ("", "fsync", "O_DIRECT"))
    assert not method.is_dearer(empty, same)
    assert method.is_dearer(empty, other)
    assert method.value(empty) == "fsync"


def test_any_difference_counts_either_way() -> None:
    one, other = {"innodb_flush_method": "fsync"}, {"innodb_flush_method": "O_DIRECT"}
    assert setting("innodb_flush_method").is_dearer(one, other)
    assert setting("innodb_flush_method").is_dearer(other, one)


def test_another_name_in_another_version() -> None:
    one, other = {"tx_isolation": "READ-COMMITTED"}, {"transaction_isolation": "REPEATABLE-READ"}
    isolation = setting("tx_isolation")
    assert isolation.is_dearer(one, other)
    assert isolation.name_in(one) == "tx_isolation"
    assert isolation.name_in(other) == "transaction_isolation"
    assert isolation.name_in({}) is None


def test_the_data_names_groups_that_there_are_and_nothing_twice() -> None:
    topics = [*known().topic, *known().build]
    there = {group.name for group in groups()}
    for topic in topics:
        assert set(topic.groups) <= there, topic.name
        assert topic.parts
        assert 0 < topic.certainty <= 1
        names = [name for each in topic.settings for name in each.names]
        assert len(names) == len(set(names)), topic.name
    assert len({topic.name for topic in topics}) == len(topics)


def test_each_topic_names_its_means_and_each_setting_what_it_does() -> None:
    for topic in [*known().topic, *known().build]:
        acts = topic.acts
        assert acts.every or acts.counters or acts.collations, topic.name
        assert set(topic.spares) <= set(acts.counters), topic.name
        for each in topic.settings:
            assert each.does, each.names
    by_effect = {each.does: topic.name for topic in known().topic for each in topic.settings}
    for topic in known().topic:
        for each in topic.settings:
            assert by_effect[each.does] == topic.name, each.names


def test_what_writes_pages_acts_by_pages_that_are_written() -> None:
    by_pages = {
        "doublewrite", "writing of dirty pages", "checksums of pages", "size of the redo log",
        "asynchronous I/O", "encryption of tables",
    }  # fmt: skip
    for topic in known().topic:
        if topic.name in by_pages:
            assert not topic.acts.every
            assert all(
                any(word in name for word in ("page", "buffer_pool", "log_waits"))
                for name in topic.acts.counters
            )
