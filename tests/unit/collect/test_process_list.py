"""When the process list is looked at, and what of it is kept."""

from __future__ import annotations

from itertools import pairwise

from millrace.collect.process_list import MOST_LOOKS, gap_s, rows_of


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


def test_looks_are_a_second_apart_at_first_and_then_ever_more() -> None:
    looks = [0.0]
    for _ in range(MOST_LOOKS):
        looks.append(looks[-1] + gap_s(looks[-1]))
    gaps = [later - earlier for earlier, later in pairwise(looks)]
    assert looks[1:5] == [1.0, 2.0, 3.0, 4.0]
    assert min(gaps) == 1.0
    assert gaps == sorted(gaps)
    assert 120 < looks[-1] < 180


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
    assert set(seen[0]) == {"id", "db", "command", "time", "state", "info"}


def test_a_crowd_is_cut_at_those_who_sleep() -> None:
    crowd = [row(n, "d", "Sleep", None) for n in range(200)] + [
        row(n, "d") for n in range(300, 340)
    ]
    seen = rows_of(crowd, own_id=0, database="d")
    assert len(seen) == 100
    assert sum(each["command"] == "Query" for each in seen) == 40
