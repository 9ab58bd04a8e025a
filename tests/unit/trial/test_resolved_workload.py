"""Test which inputs decide the content of a snapshot, and which do not."""

from typing import Any

import pytest

from millrace.trial.resolved_workload import ResolvedWorkload
from tests.support.small_workload import driving


def content_key(**chosen: Any) -> dict[str, Any]:
    return ResolvedWorkload(driving(), chosen).content_key


def test_only_what_tables_name_is_part_of_them() -> None:
    assert content_key()["values"] == {"engine": "InnoDB", "table_size": 1000, "tables": 2}


@pytest.mark.parametrize(
    "same", [{"test": "one"}, {"clients": 8}, {"range_size": 3}, {"time_s": 5}, {"load_threads": 2}]
)
def test_treatments_share_tables(same: dict[str, Any]) -> None:
    assert content_key(**same) == content_key()


@pytest.mark.parametrize(
    "other",
    [{"table_size": 5}, {"engine": "MyISAM"}, {"data_seed": 2}, {"load_method": "multi_row"}],
)
def test_other_tables_are_others(other: dict[str, Any]) -> None:
    assert content_key(**other) != content_key()


def test_the_factor_that_chooses_a_text_counts() -> None:
    tables = driving()["tables"]
    chosen = {"by": "row_format", "default": [], "compressed": ["OPTIMIZE TABLE {table}"]}
    tables = {"sbtest": {**tables["sbtest"], "after_load": chosen}}
    factors = {**driving()["factors"], "row_format": {"default": "dynamic", "free": True}}
    work = ResolvedWorkload(driving(tables=tables, factors=factors), {"row_format": "compressed"})
    assert work.content_key["values"]["row_format"] == "compressed"


def test_statements_that_make_the_data_count() -> None:
    keys = {"name": "keys", "kind": "sql", "by": "keys", "sql": {"on": "SET 1", "default": ""}}
    phases = driving()["phases"]
    factors = {**driving()["factors"], "keys": {"default": "on", "choices": ["on", "off"]}}
    definition = driving(phases=[phases[0], keys, *phases[1:]], factors=factors)
    on, off = (ResolvedWorkload(definition, {"keys": each}).content_key for each in ("on", "off"))
    assert (on.pop("statements"), on) == (["SET 1"], off)


def test_what_tests_before_the_chosen_one_do_is_part_of_the_tables() -> None:
    definition = driving(sequence=["pair", "one", "point"])

    def of(test: str, **chosen: Any) -> dict[str, Any]:
        return ResolvedWorkload(definition, {"test": test, **chosen}).content_key

    assert of("pair") == content_key()
    assert len({str(of(test)) for test in ("pair", "one", "point")}) == 3
    assert of("point") != of("point", time_s=5)
    assert of("pair") == of("pair", time_s=5)
    prior = ResolvedWorkload(definition, {"test": "point", "clients": 3}).prior
    assert [(each.values["test"], each.values["clients"]) for each in prior] == [
        ("pair", 3), ("one", 3),
    ]  # fmt: skip


def test_tables_as_many_as_clients_are_others_for_other_clients() -> None:
    tables = {"sbtest": {**driving()["tables"]["sbtest"], "count": "{clients}"}}
    of = [
        ResolvedWorkload(driving(tables=tables), {"clients": clients}).content_key
        for clients in (1, 8)
    ]
    assert of[0] != of[1]


@pytest.mark.parametrize(
    ("chosen", "place"),
    [
        ({"test": "pair", "cache_mode": "cached"}, "warm"),
        ({"test": "pair", "cache_mode": "cached", "page_cache": "cold"}, "cold"),
        ({"test": "point", "cache_mode": "cached"}, "cold"),
        ({"test": "pair", "cache_mode": "io_bound"}, "cold"),
        ({"test": "pair"}, "cold"),
        ({"test": "point", "page_cache": "warm"}, "warm"),
    ],
)
def test_files_are_in_memory_where_clients_write_to_cached_tables(
    chosen: dict[str, str], place: str
) -> None:
    assert ResolvedWorkload(driving(), chosen).page_cache == place
