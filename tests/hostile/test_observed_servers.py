"""Test that collectors turn odd answers of a server into a note and a valid document."""

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence

import pytest

from millrace.collect.collectors import Window, collecting
from millrace.collect.model import Target
from millrace.collect.registry import COLLECTORS
from millrace.errors import DatabaseError, Unavailable
from millrace.model.observations import Observations
from millrace.store import checked, observations
from tests.support import hostile_mysql
from tests.support.made_events import mark
from tests.support.observables import observable

_OBSERVERS = {name: COLLECTORS[name] for name in ("plans", "waits", "status")}
_BEGIN, _END = mark("measure_started"), mark("measure_ended")
_TABLES = observable("mysql").tables.values()
_SHOWN = {
    "SHOW GLOBAL STATUS": ("Variable_name", "Value"),
    "SHOW PROCESSLIST": ("Id", "User", "Host", "db", "Command", "Time", "State", "Info"),
}


def _columns(sql: str) -> Sequence[str]:
    """Return the columns that a statement asks for."""
    if sql.startswith("SELECT *"):
        names = (name for table in _TABLES for known in table.columns.values() for name in known)
        return sorted(set(names))
    return _SHOWN.get(sql) or re.findall(r"AS `(\w+)`", sql) or ["c"]


def _filled(
    cell: Callable[[str], bytes | None], kind: int = hostile_mysql.TEXT, n_rows: int = 2
) -> hostile_mysql.Answer:
    """Answer with the requested columns and the same value in all cells of a column."""

    def answer(sql: str) -> Iterable[bytes]:
        names = _columns(sql)
        return hostile_mysql.rows(names, *[[cell(name) for name in names]] * n_rows, kind=kind)

    return answer


def _growing(step: int, kind: int = hostile_mysql.TEXT) -> hostile_mysql.Answer:
    """Answer with switches that are on, a name, and numbers that change at each look."""
    looks = itertools.count(1)
    words = {"enabled": b"YES", "timed": b"YES", "name": b"wait/io/file", "key": b"k", "text": b"t"}

    def cell(name: str) -> bytes:
        known = words | {"variable_name": b"Questions"}
        return known.get(name.lower(), str(next(looks) * step).encode())

    return _filled(cell, kind)


_ODD = {
    "no rows": _filled(lambda _: b"1", n_rows=0),
    "nulls": _filled(lambda _: None),
    "empty": _filled(lambda _: b""),
    "words": _filled(lambda _: b"x"),
    "not UTF-8": _filled(lambda _: b"\xff\xfe"),
    "dates": _filled(lambda _: b"0000-99-99", hostile_mysql.DATE),
    "NaN": _filled(lambda _: b"nan", hostile_mysql.DOUBLE),
    "infinity": _filled(lambda _: b"-inf", hostile_mysql.DOUBLE),
    "no decimal": _filled(lambda _: b"NaN", hostile_mysql.DECIMAL),
    "endless decimal": _filled(lambda _: b"1E+1000000", hostile_mysql.DECIMAL),
    "no whole number": _filled(lambda _: b"1.5", hostile_mysql.WHOLE),
    "5,000 digits": _filled(lambda _: b"9" * 5000),
    "4,000 digits as a number": _filled(lambda _: b"9" * 4000, hostile_mysql.WHOLE),
    "a long text": _filled(lambda _: b"n" * 500_000),
    "negative and falling": _growing(-1),
    "growing": _growing(1),
    "growing whole numbers": _growing(1, hostile_mysql.WHOLE),
    "growing beyond all bounds": _growing(10**40),
    "one other column": lambda sql: hostile_mysql.rows(["x"], [b"1"], [b"2"]),
    "too few cells": hostile_mysql.answers(b"1", n_columns=3),
    "no result": hostile_mysql.says(b"\x00\x00\x00\x02\x00\x00\x00"),
    "an error": hostile_mysql.says(b"\xff\x51\x04#HY000no"),
    "an unknown error": hostile_mysql.says(b"\xff"),
}


@pytest.mark.parametrize("odd", _ODD)
def test_an_odd_answer_is_a_note_and_the_rest_can_be_kept(odd: str) -> None:
    with hostile_mysql.serving(_ODD[odd]) as server:
        instance = server.attached
        target = Target(instance, None, None, "test", {"one": "SELECT 1"}, limit_s=20)
        window = Window("measure", "measure", drives=True)
        with collecting(_OBSERVERS, list(_OBSERVERS), target, window) as collector:
            for event in (_BEGIN, _END):
                collector.on_event(event)
            document = collector.document()
        with contextlib.suppress(Unavailable, DatabaseError):
            session = target.session()
            with contextlib.closing(session):
                kinds = instance.family.monitoring.thread_roles(session).kinds()
                assert all(isinstance(kind, str) for kind in kinds.values())
    missing = {lack["observer"] for lack in document["missing"]}
    assert missing | set(document["observers"]) == set(_OBSERVERS)
    text = json.dumps(document, allow_nan=False)
    assert len(text) < 20 << 20
    checked.document(observations.KIND, Observations, json.loads(text))
