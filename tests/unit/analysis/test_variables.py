"""Test effective variables: differences, and values other than the requested ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.variables import Mismatch, asked_against_effective, diff, differing_items
from millrace.store.records import OptionRecord

VARIABLES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["0", "1", "ON", "x"]))


def asked(name: str, value: str | None, layer: str = "mine") -> OptionRecord:
    return OptionRecord(name, value, layer, optional=False)


@given(VARIABLES, VARIABLES)
def test_the_groups_are_disjoint_and_complete(a: dict[str, str], b: dict[str, str]) -> None:
    found = diff(a, b)
    assert found.only_a == {name: a[name] for name in a.keys() - b.keys()}
    assert found.only_b == {name: b[name] for name in b.keys() - a.keys()}
    assert found.different == {n: (a[n], b[n]) for n in a.keys() & b.keys() if a[n] != b[n]}


@given(VARIABLES, VARIABLES)
def test_the_other_way_round_is_the_mirror_image(a: dict[str, str], b: dict[str, str]) -> None:
    there, back = diff(a, b), diff(b, a)
    assert (there.only_a, there.only_b) == (back.only_b, back.only_a)
    assert {name: (y, x) for name, (x, y) in there.different.items()} == back.different


def test_names_are_sorted_and_ignored_ones_left_out_by_name_or_pattern() -> None:
    a = {"z": "1", "port": "1", "mysqlx_port": "1", "b": "1"}
    b = {"z": "2", "port": "2", "mysqlx_port": "2", "b": "2", "mysqlx_socket": "x"}
    found = diff(a, b, ignored=["port", "mysqlx_*"])
    assert list(found.different) == ["b", "z"]
    assert not found.only_b


def test_the_same_number_in_another_spelling_does_not_differ() -> None:
    assert not diff({"pct": "75"}, {"pct": "75.000000"}).different
    assert diff({"version": "5.6"}, {"version": "5.7"}).different


@pytest.mark.parametrize(
    ("name", "value", "variable", "effective"),
    [
        ("innodb_buffer_pool_size", "12G", "innodb_buffer_pool_size", "12884901888"),
        ("performance_schema", "1", "performance_schema", "ON"),
        ("performance_schema", "0", "performance_schema", "OFF"),
        ("query_cache_type", "FALSE", "query_cache_type", "OFF"),
        ("max-binlog-size", "1000M", "max_binlog_size", "1048576000"),
        ("skip_name_resolve", None, "skip_name_resolve", "ON"),
        ("skip_log_bin", None, "log_bin", "OFF"),
        ("loose_skip_log_bin", "1", "log_bin", "OFF"),
        ("log_bin", "binlog", "log_bin", "ON"),
        ("transaction_isolation", "REPEATABLE-READ", "tx_isolation", "REPEATABLE-READ"),
        ("innodb_file_format", "barracuda", "innodb_file_format", "Barracuda"),
        ("innodb_max_dirty_pages_pct", "80", "innodb_max_dirty_pages_pct", "80.000000"),
        ("sql_mode", "B,A", "sql_mode", "A,B"),
        ("sql_mode", "", "sql_mode", ""),
        ("sql_mode", "TRADITIONAL", "sql_mode", "STRICT_TRANS_TABLES,TRADITIONAL"),
        ("optimizer_switch", "mrr=on,bka=on", "optimizer_switch", "a=off,bka=on,mrr=on"),
        ("temp_pool", None, "another", "OFF"),
    ],
)
def test_the_same_value_in_another_spelling_is_no_mismatch(
    name: str, value: str | None, variable: str, effective: str
) -> None:
    assert asked_against_effective([asked(name, value)], {variable: effective}) == ()


@pytest.mark.parametrize(
    ("name", "value", "variable", "effective", "shown"),
    [
        ("open_files_limit", "200000", "open_files_limit", "20000", "200000"),
        ("innodb_buffer_pool_size", "1G", "innodb_buffer_pool_size", "1024", "1G"),
        ("log_bin", "binlog", "log_bin", "OFF", "binlog"),
        ("skip_log_bin", None, "log_bin", "ON", "OFF"),
        ("optimizer_switch", "mrr=on", "optimizer_switch", "mrr=off,x=on", "mrr=on"),
        ("sql_mode", "", "sql_mode", "STRICT_ALL_TABLES", ""),
        ("performance_schema", "1", "performance_schema", "OFF", "1"),
    ],
)
def test_another_value_is_a_mismatch(
    name: str, value: str | None, variable: str, effective: str, shown: str
) -> None:
    found = asked_against_effective([asked(name, value)], {variable: effective})
    assert found == (Mismatch(name, shown, effective, "mine"),)


def test_an_option_that_was_left_out_is_no_mismatch() -> None:
    option = OptionRecord("read_only", "1", "mine", optional=True, left_out="unknown")
    assert asked_against_effective([option], {"read_only": "OFF"}) == ()


@pytest.mark.parametrize(
    ("a", "b", "shown"),
    [
        ("mrr=on,icp=on,x=off", "mrr=off,icp=on,x=off", ("mrr=on", "mrr=off")),
        ("mrr=on,icp=on", "mrr=on,icp=on,hash_join=on", ("", "hash_join=on")),
        ("STRICT,ANSI", "STRICT,NO_ZERO", ("ANSI", "NO_ZERO")),
        ("a,b", "b,a", ("a,b", "b,a")),  # the order may matter
        ("STRICT,ANSI", "", ("STRICT,ANSI", "")),
        ("1", "2", ("1", "2")),
    ],
)
def test_differing_items_leave_out_what_is_equal(a: str, b: str, shown: tuple[str, str]) -> None:
    assert differing_items(a, b) == shown
