"""What it means when a server does not tell."""

from __future__ import annotations

from decimal import Decimal

import pymysql
import pytest

from millrace.collect import query


@pytest.mark.parametrize(
    ("what", "error", "said", "remedy"),
    [
        (
            "SHOW ENGINE INNODB STATUS",
            pymysql.OperationalError(1227, "Access denied; you need PROCESS"),
            "no right to read it",
            "GRANT PROCESS",
        ),
        (
            "performance_schema.threads",
            pymysql.OperationalError(1142, "SELECT command denied"),
            "no right to read it",
            "GRANT SELECT ON performance_schema",
        ),
        (
            "information_schema.INNODB_METRICS",
            pymysql.OperationalError(1109, "Unknown table"),
            "this server does not have it",
            None,
        ),
        ("x", pymysql.OperationalError(2013, "Lost connection"), "x: Lost connection", None),
        ("x", OSError(5, "Input/output error"), "Input/output error", None),
    ],
)
def test_errors_say_what_to_do(
    what: str, error: pymysql.MySQLError | OSError, said: str, remedy: str | None
) -> None:
    lack = query.unavailable(what, error)
    assert lack.message.startswith(what)
    assert said in lack.message
    assert (lack.hint is None) is (remedy is None)
    assert (remedy or "") in (lack.hint or "")
    assert query.missing(lack) == {"what": lack.message, "remedy": lack.hint}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("3"), 3),
        (Decimal("3.25"), 3.25),
        (b"\xc2\xb5", "µ"),
        (None, None),
        ("x", "x"),
        (4, 4),
    ],
)
def test_values_are_as_json_has_them(value: object, expected: object) -> None:
    assert query.plain(value) == expected
