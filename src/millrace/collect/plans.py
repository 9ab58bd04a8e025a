"""The plans by which a server carries out the workload's statements: EXPLAIN of each, once, after
the window.

Versions differ in what they explain: MySQL and MariaDB to 5.5 only SELECT. A statement that cannot
be explained has an error instead of rows. The plan is the one for the values that stand in the
statement, at the end of the trial.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace import databases
from millrace.collect import query
from millrace.collect.model import Observer, Target
from millrace.databases.base import Explains, Family, version_key
from millrace.databases.deltas import Row, number
from millrace.databases.mysql.client import words_of
from millrace.errors import Unavailable

NAME = "plans"
COST = "Nothing while clients are measured: statements are explained after the window."

_VERB = re.compile(r"(?:\s|\(|/\*.*?\*/|--\s.*?\n|#.*?\n)*([A-Za-z]+)", re.DOTALL)


def observer(target: Target) -> Observer:
    """An observer of the plans of ``target.statements``. Raises Unavailable where the server does
    not tell its version."""
    family = databases.get(target.instance.server.family)
    return _PlansObserver(target, explains_of(family, query.version_of(target)))


def explains_of(family: Family, version: tuple[int, ...]) -> Explains:
    """How a version of a family explains."""
    first, *later = family.observable.explains
    return [first, *(entry for entry in later if version_key(entry.since) <= version)][-1]


def verb_of(sql: str) -> str:
    """The first word of a statement, in capitals, behind comments and parentheses."""
    matched = _VERB.match(sql)
    return matched[1].upper() if matched else ""


class _PlansObserver:
    def __init__(self, target: Target, explains: Explains) -> None:
        self._target = target
        self._explains = explains

    def begin(self) -> None:
        pass

    def end(self) -> None:
        pass

    def told(self) -> Mapping[str, Any]:
        told = {}
        with contextlib.ExitStack() as opened:
            session: Connection[Any] | None = None
            for name, sql in self._target.statements.items():
                if session is None or not session.open:
                    session = query.session(self._target, self._target.database)
                    opened.callback(_close, session)
                told[name] = {"sql": sql, **self._explained(session, sql)}
        return {"plans": told}

    def close(self) -> None:
        pass

    def _explained(self, session: Connection[Any], sql: str) -> Mapping[str, Any]:
        if verb_of(sql) not in self._explains.verbs:
            verbs = ", ".join(sorted(self._explains.verbs))
            return {"rows": [], "error": f"this version explains {verbs} only"}
        try:
            with query.understood("the plan"):
                rows = query.rows(session, self._explains.form.replace("{sql}", sql))
        except Unavailable as lack:
            return {"rows": [], "error": lack.message}
        except pymysql.MySQLError as error:
            return {"rows": [], "error": words_of(error)}
        return {"rows": [plain(row) for row in rows], "error": None}


def plain(row: Row) -> dict[str, Any]:
    """A row of a plan as JSON has it. MariaDB tells the number of rows as text: as a number, unless
    there is more to it (``10 (5%)``)."""
    told = {name: query.plain(value) for name, value in row.items()}
    rows = number(told.get("rows"))
    return told if rows is None else {**told, "rows": rows}


def _close(session: Connection[Any]) -> None:
    """Close a session that the server may have ended."""
    if session.open:
        session.close()
