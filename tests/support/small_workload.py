"""Define a small workload that drives clients, complete as after loading."""

from copy import deepcopy
from typing import Any

from millrace import workloads


def driving(**changes: Any) -> dict[str, Any]:
    """Return its definition with some keys changed.

    They change before the keys that its phases imply are added."""
    return workloads.completed(deepcopy({**_DEFINITION, **changes}))


def naps(seconds: str) -> dict[str, Any]:
    """Return a definition whose only statement sleeps for this expression of seconds."""
    return driving(
        default_test="nap",
        statements={"nap": {"sql": f"SELECT SLEEP({seconds})"}},
        tests={"nap": {"title": "a nap", "tables": "sbtest", "steps": [{"statements": ["nap"]}]}},
    )


_DEFINITION: dict[str, Any] = {
    "name": "small",
    "title": "a few statements",
    "version": 1,
    "roles": ["server"],
    "default_test": "point",
    "factors": {"engine": {"default": "InnoDB", "free": True}},
    "parameters": {
        "tables": {"kind": "integer", "default": 2, "minimum": 1},
        "table_size": {"kind": "integer", "default": 1000, "minimum": 1},
        "range_size": {"kind": "integer", "default": 100, "minimum": 1},
    },
    "tables": {
        "sbtest": {
            "name": "sbtest{n}",
            "count": "{tables}",
            "rows": "{table_size}",
            "create": "CREATE TABLE {table} (id INTEGER NOT NULL AUTO_INCREMENT,"
            " k INTEGER NOT NULL, c CHAR(120) NOT NULL, PRIMARY KEY (id))"
            " ENGINE={engine} DEFAULT CHARSET=latin1",
            "after_load": ["CREATE INDEX k_{n} ON {table} (k)"],
            "warm": ["SELECT count(length(c)) FROM {table}"],
            "columns": [
                {"name": "id", "kind": "sequence", "first": 1},
                {"name": "k", "kind": "integer", "low": 1, "high": "{table_size}"},
                {"name": "c", "kind": "digits", "groups": 10, "length": 11},
            ],
        }
    },
    "generators": {
        "id": {"kind": "integer", "low": 1, "high": "{table_size}"},
        "last": {"kind": "derived", "from": "id", "plus": "{range_size}-1"},
    },
    "statements": {
        "select": {"sql": "SELECT c FROM {table} WHERE id = ?", "parameters": ["id"]},
        "update": {"sql": "UPDATE {table} SET k = k + 1 WHERE id = ?", "parameters": ["id"]},
        "again": {"sql": "INSERT INTO {table} (id, k, c) VALUES (?, 0, '')", "parameters": ["id"]},
        "range": {
            "sql": "SELECT c FROM {table} WHERE id BETWEEN ? AND ?",
            "parameters": ["id", "last"],
        },
    },
    "tests": {
        "point": {"title": "one row", "steps": [{"statements": ["select"]}]},
        "pair": {
            "title": "a transaction",
            "transaction": True,
            "steps": [{"statements": ["select", "update"]}],
        },
        "repeat": {"title": "rows that are there", "steps": [{"statements": ["again"]}]},
        "one": {
            "title": "a short range",
            "values": {"range_size": 7},
            "steps": [{"statements": ["range"]}],
        },
    },
    "phases": [
        {"name": "load", "kind": "load_tables"},
        {"name": "verify", "kind": "verify_tables"},
        {"name": "warm", "kind": "warm_tables"},
        {"name": "measure", "kind": "drive"},
    ],
    "metrics": {
        "throughput": {
            "title": "transactions per second",
            "unit": "transactions/s",
            "direction": "higher",
            "numerator": ["transactions"],
            "denominator": ["measure_duration_s"],
            "primary": True,
        },
        "p99": {
            "title": "99th percentile",
            "unit": "s",
            "direction": "lower",
            "percentile": 99,
            "of": "transaction",
            "time": "response",
        },
    },
}
