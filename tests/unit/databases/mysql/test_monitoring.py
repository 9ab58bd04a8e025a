"""Test which fields of a process list are stored, and which sessions count."""

from collections.abc import Sequence
from typing import Any

from millrace import databases
from millrace.databases.client import Row
from millrace.databases.mysql.monitoring import rows_of


def row(
    number: int, db: str | None, command: str = "Query", info: str | None = "SELECT 1"
) -> dict[str, object]:
    return {
        "id": number,
        "user": "root",
        "host": "localhost",
        "db": db,
        "command": command,
        "time": 0,
        "state": "init",
        "info": info,
    }


def test_observers_are_left_out_and_what_others_say_too() -> None:
    seen = rows_of(
        [
            row(1, None, "Query", "SHOW PROCESSLIST"),
            row(2, None, "Sleep", None),
            row(3, "d", "Sleep", None),
            row(4, "d"),
            row(5, "payroll", info="SELECT secret"),
            row(6, None, "Daemon", None),
        ],
        own_id=1,
        database="d",
    )
    assert [(each["id"], each["info"]) for each in seen] == [
        (4, "SELECT 1"),
        (5, None),
        (6, None),
        (3, None),
    ]
    assert [each["db"] for each in seen] == ["d", None, None, "d"]
    assert set(seen[0]) == {"id", "db", "command", "time", "state", "info"}


def test_a_crowd_is_cut_at_those_who_sleep() -> None:
    crowd = [row(n, "d", "Sleep", None) for n in range(200)] + [
        row(n, "d") for n in range(300, 340)
    ]
    seen = rows_of(crowd, own_id=0, database="d")
    assert len(seen) == 100
    assert sum(each["command"] == "Query" for each in seen) == 40


class _Session:
    """A session of a server that answers each statement with these rows."""

    id = 1

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def rows(self, _sql: str) -> Sequence[Row]:
        return self._rows


def test_sessions_in_a_database_count_while_they_end() -> None:
    monitoring = databases.get("mysql").monitoring
    listed = [row(1, "d"), row(2, "d", "Sleep", None), row(3, "other"), row(4, None, "Daemon")]
    session: Any = _Session([*listed, row(5, "d", "Quit", None)])
    assert monitoring.sessions_in(session, "d") == 2
    assert monitoring.sessions_in(session, "nothing") == 0


REPORT = """
LATEST DETECTED DEADLOCK
UPDATE accounts SET pin = '4711-swordfish' WHERE owner = 'alice'
TRANSACTIONS
Trx id counter 1820
Purge done for trx's n:o < 1819 undo n:o < 0 state: running but idle
History list length 7
---TRANSACTION 1819, ACTIVE 3 sec
INSERT INTO cards VALUES ('swordfish')
LOG
Log sequence number          18249
Last checkpoint at           18000
Modified db pages  12
"""


def test_a_report_of_the_engine_is_read_for_its_figures_alone() -> None:
    session: Any = _Session([{"type": "InnoDB", "name": "", "status": REPORT}])
    found = databases.get("mysql").monitoring.engine_status(session)
    assert found["history"] == 7
    assert found["log_position"] == 18249
    assert found["dirty_pages"] == 12
    assert all(isinstance(value, int) for value in found.values())
    assert databases.get("mysql").monitoring.engine_status(_Session([])) == {}  # type: ignore[arg-type]
