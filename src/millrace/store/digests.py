"""Detect rows that were changed after they were written, by a digest of each run and attempt.

SQLite has no page checksums, so a flipped bit in a measurement is another valid number. An
attempt's digest covers its rows, its trial and treatment, and its servers and variables. It is
computed from the rows as the database returns them, in the transaction that writes them. It covers
only columns with a value, by name, so a later version may add an empty column. Digests detect
damage but not forgery: whoever can write to the store can also write digests.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, FromClause, Table, select

from millrace.store import schema

# Tables whose rows belong to one attempt; tables whose rows instances share, with the key column.
_OF_ATTEMPT = (schema.steps, schema.measurements, schema.attempt_artefacts, schema.instances)
_SHARED = ((schema.servers, "server_sha256"), (schema.variable_sets, "variables_sha256"))
# Each store assigns its own ids, and a digest does not cover itself.
_NOT_COVERED = {
    schema.runs: {"sha256"},
    schema.attempts: {"id", "sha256"},
    schema.servers: {"sha256"},
    schema.variable_sets: {"sha256"},
}
_OF_TRIAL = ("id", "treatment_id", "block", "purpose")
_OF_TREATMENT = ("id", "levels", "resolved")

_ENDED = schema.attempts.c.outcome.is_not(None)

Columns = Sequence[ColumnElement[Any]]


def sign_run(connection: Connection, run_id: str) -> None:
    """Store the digest of a run's row; call it after each change of the row."""
    runs = schema.runs
    digest = _digests_of_runs(connection, runs.c.id == run_id)[run_id]
    connection.execute(runs.update().where(runs.c.id == run_id).values(sha256=digest))


def changed_runs(connection: Connection, condition: ColumnElement[bool]) -> frozenset[str]:
    """Return the ids of the runs whose rows do not match their digest, or have no digest."""
    runs = schema.runs
    found = _digests_of_runs(connection, condition)
    signed = connection.execute(select(runs.c.id, runs.c.sha256).where(condition))
    return frozenset(run_id for run_id, sha256 in signed if sha256 != found[run_id])


def sign_attempt(connection: Connection, attempt_id: int) -> None:
    """Store the digest of an attempt; call it when all its rows are written."""
    attempts = schema.attempts
    digest = _digests_of_attempts(connection, attempts.c.id == attempt_id)[attempt_id]
    connection.execute(attempts.update().where(attempts.c.id == attempt_id).values(sha256=digest))


def changed_attempts(connection: Connection, mine: ColumnElement[bool]) -> frozenset[int]:
    """Return the ids of ended attempts whose rows do not match their digest, or have no digest."""
    attempts = schema.attempts
    query = select(attempts.c.id, attempts.c.sha256).select_from(attempts.join(schema.trials))
    is_signed = attempts.c.sha256.is_not(None)
    signed = connection.execute(query.where(mine, sa.or_(_ENDED, is_signed))).all()
    if not signed:
        return frozenset()
    found = _digests_of_attempts(connection, mine)
    return frozenset(row.id for row in signed if row.sha256 != found.get(row.id))


def _digests_of_runs(connection: Connection, condition: ColumnElement[bool]) -> dict[str, str]:
    """Return the current digests of runs by id."""
    runs = schema.runs
    found = _rows(connection, runs, runs.c.id, _covered(runs), where=condition)
    return {run_id: _digest([text]) for run_id, text in found}


def _digests_of_attempts(connection: Connection, mine: ColumnElement[bool]) -> dict[int, str]:
    """Return the current digests of attempts by id."""
    attempts, trials, treatments = schema.attempts, schema.trials, schema.treatments
    texts: defaultdict[int, list[str]] = defaultdict(list)

    def cover(source: FromClause, columns: Columns, *order: ColumnElement[Any]) -> None:
        for attempt_id, text in _rows(
            connection, source, attempts.c.id, columns, *order, where=mine
        ):
            texts[attempt_id].append(text)

    everything = attempts.join(trials).join(treatments)
    cover(everything, _covered(attempts))
    cover(everything, [trials.c[name] for name in _OF_TRIAL])
    cover(everything, [treatments.c[name] for name in _OF_TREATMENT])
    for table in _OF_ATTEMPT:
        cover(table.join(attempts).join(trials), _covered(table), table.c.position)
    instances = schema.instances
    for table, name in _SHARED:
        referring = instances.join(attempts).join(trials)
        key = instances.c[name]
        is_used = table.c.sha256.in_(select(key).select_from(referring).where(mine))
        shared = dict(_rows(connection, table, table.c.sha256, _covered(table), where=is_used))
        of_key = {sha256: _digest([text]) for sha256, text in shared.items()}
        query = select(instances.c.attempt_id, key).select_from(referring).where(mine)
        for attempt_id, sha256 in connection.execute(query.order_by(instances.c.position)):
            texts[attempt_id].append(f"{table.name} {of_key.get(sha256)}")
    return {attempt_id: _digest(found) for attempt_id, found in texts.items()}


def _covered(table: Table) -> Columns:
    without = _NOT_COVERED.get(table, {"attempt_id"})
    return [column for column in table.c if column.name not in without]


def _rows(
    connection: Connection,
    source: FromClause,
    key: ColumnElement[Any],
    columns: Columns,
    *order: ColumnElement[Any],
    where: ColumnElement[bool],
) -> Iterator[tuple[Any, str]]:
    """Yield the key and the text of rows as the database stores them, with unparsed JSON."""
    names = [column.name for column in columns]
    plain = [
        sa.type_coerce(column, sa.String) if isinstance(column.type, sa.JSON) else column
        for column in columns
    ]
    query = select(key.label("of"), *plain).select_from(source).where(where).order_by(*order)
    for row in connection.execute(query):
        values = zip(names, row[1:], strict=True)
        yield row[0], repr([pair for pair in values if pair[1] is not None])


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
