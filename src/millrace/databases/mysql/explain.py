"""Read the plans of statements, where a version explains them: to 5.5 only those of SELECT."""

import re

from pydantic import ValidationError

from millrace.databases.base import version_key
from millrace.databases.client import Row, Session
from millrace.databases.deltas import number
from millrace.databases.mysql import query
from millrace.databases.mysql.observable import Explains, Observable
from millrace.errors import DatabaseError, Unavailable
from millrace.model.observations import PlanRow, QueryPlan

_VERB = re.compile(r"(?:\s|\(|/\*.*?\*/|--\s.*?\n|#.*?\n)*([A-Za-z]+)", re.DOTALL)


class MysqlExplainer:
    """The explainer of MySQL and MariaDB: see ``databases.monitoring.Explainer``."""

    def __init__(self, explains: Explains) -> None:
        self._explains = explains

    def explain(self, session: Session, sql: str) -> QueryPlan:
        if verb_of(sql) not in self._explains.verbs:
            verbs = ", ".join(sorted(self._explains.verbs))
            return QueryPlan(rows=(), error=f"this version explains {verbs} only")
        try:
            with query.understood("the plan"):
                rows = session.rows(self._explains.form.replace("{sql}", sql))
            return QueryPlan(rows=tuple(plain(row) for row in rows), error=None)
        except (DatabaseError, Unavailable) as error:
            return QueryPlan(rows=(), error=error.message)
        except ValidationError as error:
            return QueryPlan(rows=(), error=f"not a plan: {error.errors()[0]['msg']}")


def explains_of(observable: Observable, version: str) -> Explains:
    """Return the syntax in which a version of a family explains."""
    first, *later = observable.explains
    key = version_key(version)
    return [first, *(entry for entry in later if version_key(entry.since) <= key)][-1]


def verb_of(sql: str) -> str:
    """Return the first word of a statement, in capitals, after comments and parentheses."""
    matched = _VERB.match(sql)
    return matched[1].upper() if matched else ""


def plain(row: Row) -> PlanRow:
    """Return a plan's row as JSON has it, with MariaDB's row count, if it is one, as a number."""
    values = {name: query.plain(value) for name, value in row.items()}
    rows = number(values.get("rows"))
    return values if rows is None else {**values, "rows": rows}
