"""Test the facts about settings: which value costs more, and whether the data is consistent."""

from __future__ import annotations

import pytest

from millrace.analysis.explain.causes.known import Setting, known, needed
from millrace.analysis.explain.function_groups import groups


def setting(name: str) -> Setting:
    return next(each for topic in known().topic for each in topic.settings if name in each.names)


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
        ("query_cache_type", "OFF", "DEMAND"),
        ("long_query_time", "10.000000", "0.000000"),
        ("innodb_redo_log_capacity", "1073741824", "104857600"),
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


@pytest.mark.parametrize("name", ["innodb_log_buffer_size", "innodb_log_write_ahead_size"])
def test_sizes_beside_that_of_the_redo_log(name: str) -> None:
    (topic,) = [
        topic for topic in known().topic if any(name in each.names for each in topic.settings)
    ]
    assert "dirty pages" not in topic.does


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
    assert isolation.name_of(one, other) == "transaction_isolation"
    assert isolation.name_of(one, one) == "tx_isolation"


def test_the_data_names_groups_that_there_are_and_nothing_twice() -> None:
    topics = [*known().topic, *known().build]
    there = {group.name for group in groups()}
    for topic in topics:
        assert set(topic.groups) <= there, topic.name
        assert topic.parts
        assert 0 < topic.certainty <= 1
    names = [name for topic in topics for each in topic.settings for name in each.names]
    assert len(names) == len(set(names))
    assert len({topic.name for topic in topics}) == len(topics)
