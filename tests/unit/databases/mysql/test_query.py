from decimal import Decimal

import pytest

from millrace.databases.mysql import query
from millrace.errors import DatabaseError


@pytest.mark.parametrize(
    ("what", "error", "said", "hint"),
    [
        (
            "SHOW ENGINE INNODB STATUS",
            DatabaseError("Access denied; you need PROCESS", kind="forbidden"),
            "permission denied",
            "GRANT PROCESS",
        ),
        (
            "performance_schema.threads",
            DatabaseError("SELECT command denied", kind="forbidden"),
            "permission denied",
            "GRANT SELECT ON performance_schema",
        ),
        (
            "information_schema.INNODB_METRICS",
            DatabaseError("Unknown table", kind="absent"),
            "this server does not have it",
            None,
        ),
        ("x", DatabaseError("Lost connection", kind="unreachable"), "x: Lost connection", None),
        ("x", OSError(5, "Input/output error"), "Input/output error", None),
    ],
)
def test_errors_say_what_to_do(
    what: str, error: DatabaseError | OSError, said: str, hint: str | None
) -> None:
    lack = query.unavailable(what, error)
    assert lack.message.startswith(what)
    assert said in lack.message
    assert (lack.hint is None) is (hint is None)
    assert (hint or "") in (lack.hint or "")


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
