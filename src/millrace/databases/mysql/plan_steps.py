"""Read EXPLAIN's rows as steps in which servers of any version can be compared.

Versions phrase the same step differently, and print what others do without a word. So the labels
that only some versions print (``Backward index scan``, ``Using index condition``, ``Using MRR``) do
not count, nor do names of statements and of tables that the server makes for itself.
"""

import re
from collections.abc import Sequence

from pydantic import ValidationError

from millrace.databases.base import version_key
from millrace.databases.client import Row, Session
from millrace.databases.deltas import number
from millrace.databases.mysql import query
from millrace.databases.mysql.query import Explains, Observable
from millrace.errors import DatabaseError, Unavailable
from millrace.model.observations import PlanRow, PlanStep, QueryPlan

# Rows that stand for the change itself, without a read; and other names for the main query.
_PUT_IN = frozenset(("INSERT", "REPLACE"))
_ROLES = {
    "DERIVED": "materialised",
    "MATERIALIZED": "materialised",
    "LATERAL DERIVED": "materialised for each row",
    "SUBQUERY": "executed once",
    "UNCACHEABLE SUBQUERY": "executed for each row",
    "DEPENDENT SUBQUERY": "executed for each row",
    "UNCACHEABLE UNION": "executed for each row",
    "DEPENDENT UNION": "executed for each row",
    "UNION RESULT": "union",
}
_QUERY = "query"

_COVERS, _OF_GROUPS = "Using index", "Using index for"
_WORK = {
    "Using filesort": "a sort",
    "Using temporary": "a temporary table",
    "Start temporary": "a temporary table",
    "Using index for group-by": "one entry of the index for each group",
    "Using index for skip scan": "a range for each prefix of the index",
    "Using intersect": "an intersection of indexes",
    "Using union": "a union of indexes",
    "Using sort_union": "a union of indexes with a sort",
    "Using rowid filter": "a filter by another index",
    "FirstMatch": "a semi-join that ends at the first match",
    "LooseScan": "a semi-join by one entry for each value",
    "Range checked": "a choice of the index for each row",
    "Impossible": "no rows: an impossible condition",
    "Select tables optimized away": "no rows: the index has the answer",
}
_JOIN_BUFFER = "Using join buffer"
# "hash join" of MySQL; "BNLH join" and "BKAH join" of MariaDB.
_HASH_JOIN = re.compile(r"\bhash join\b|\bB(?:NL|KA)H\b")
_KEY_JOIN = re.compile(r"\bBatched Key Access\b|\bBKAH?\b")

_BY_KEY = frozenset(("ref", "eq_ref", "const", "ref_or_null", "index_subquery", "unique_subquery"))
_MADE_TABLE = re.compile(r"<(?:derived|subquery)(\d+)>")
_MADE_KEY = re.compile(r"<auto_(?:distinct_)?key\d*>|(?:distinct_)?key\d+", re.IGNORECASE)


def plan_steps(rows: Sequence[PlanRow]) -> tuple[PlanStep, ...]:
    """Return the steps of EXPLAIN's rows, in their order."""
    steps = []
    for row in rows:
        caseless = {column.lower(): value for column, value in row.items()}
        text = {name: str(caseless.get(name) or "") for name in _TEXTS}
        labels = [part.strip() for part in text["extra"].split(";")]
        if text["select_type"] in _PUT_IN or (not text["table"] and "No tables used" in labels):
            continue
        steps.append(_step(text, labels))
    return tuple(steps)


_TEXTS = ("select_type", "table", "type", "key", "ref", "extra")


def _step(text: dict[str, str], labels: Sequence[str]) -> PlanStep:
    made = _MADE_TABLE.fullmatch(text["table"])
    # MariaDB: "hash_ALL" for a hash join, "ref|filter" with "key|key of the filter".
    access, _, by_filter = text["type"].removeprefix("hash_").partition("|")
    key = text["key"].partition("|")[0] if by_filter else text["key"]
    key = "" if key.startswith("#hash#$") else key.removeprefix("#hash#")
    if made and _MADE_KEY.fullmatch(key):
        key = "made for it"
    work = {name for label in labels for start, name in _WORK.items() if label.startswith(start)}
    work.update(_join(label) for label in labels if label.startswith(_JOIN_BUFFER))
    return PlanStep(
        role=_ROLES.get(text["select_type"], _QUERY),
        table=f"<{made[1]}>" if made else text["table"],
        access="const" if access == "system" else access,
        key=key,
        key_parts=len(text["ref"].split(",")) if text["ref"] and access in _BY_KEY else None,
        covers=any(label == _COVERS or label.startswith(_OF_GROUPS) for label in labels),
        work=tuple(sorted(work)),
    )


def _join(label: str) -> str:
    """Return how a label says that a join buffer is looked up."""
    if _HASH_JOIN.search(label):
        return "a hash join"
    return "a join by batches of keys" if _KEY_JOIN.search(label) else "a join by nested loops"


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
