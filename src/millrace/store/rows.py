"""Convert records to rows and back; only this module and ``schema`` know the tables' layout."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Result, Row, Table, and_, insert, select

from millrace.store import checked, digests, observations, records, schema
from millrace.store.checked import NotARecord
from millrace.store.records import AttemptResult, Origin, Owner, RunRecord, StoredAttempt, StoredRun

T = TypeVar("T")
AnyRow = Row[Any]

CHANGED = "read"
"""The failed step of an attempt whose rows do not match their digest."""

_OF_AN_END = ("outcome", "failed_step", "reason", "log_tail")


def run_row(run: RunRecord) -> dict[str, Any]:
    """Return a run as a row."""
    row = {name: getattr(run, name) for name in _RUN_COLUMNS}
    return row | {
        "host_id": run.host.id,
        "host_facts": run.host.facts.to_json(),
        "versions": dict(run.versions),
        "spec": run.spec.to_json(),
    }


def run_records(
    connection: Connection, condition: ColumnElement[bool], *order: ColumnElement[Any]
) -> list[RunRecord]:
    """Return the runs that meet a condition. Raise NotARecord for a row that was changed."""
    for run_id in sorted(digests.changed_runs(connection, condition)):
        raise NotARecord(f"run {run_id!r}: its row was changed after it was written")
    query = select(schema.runs).where(condition).order_by(*order)
    return [_run_record(row) for row in connection.execute(query)]


def _run_record(row: AnyRow) -> RunRecord:
    return checked.valid_run(
        checked.record(
            RunRecord,
            **{name: getattr(row, name) for name in _RUN_COLUMNS},
            host=checked.record(records.HostRecord, id=row.host_id, facts=row.host_facts),
            versions=row.versions,
            spec=row.spec,
            origin=origin(row.imported_utc),
        )
    )


def origin(imported_utc: str | None) -> Origin:
    """Return ``local`` if a run has no time of import, else ``imported``."""
    return "local" if imported_utc is None else "imported"


_RUN_COLUMNS = tuple(
    each.name
    for each in fields(RunRecord)
    if each.name not in ("host", "versions", "spec", "origin")
)
_ATTEMPT_COLUMNS = (
    "id", "trial_id", "number", "started_utc", "ended_utc", "outcome", "failed_step", "reason",
    "log_tail",
)  # fmt: skip


def insert_plan(
    connection: Connection,
    run_id: str,
    treatments: Iterable[records.TreatmentRecord],
    trials: Iterable[records.TrialRecord],
) -> None:
    """Insert the treatments and trials that the run does not have yet."""
    for table, planned in ((schema.treatments, treatments), (schema.trials, trials)):
        known = set(connection.scalars(select(table.c.id).where(table.c.run_id == run_id)))
        missing = [{"run_id": run_id, **asdict(each)} for each in planned if each.id not in known]
        insert_all(connection, table, missing)


def owner_record(row: AnyRow) -> Owner:
    """Return the owner of the attempt in a row."""
    columns = {each.name: getattr(row, f"owner_{each.name}") for each in fields(Owner)}
    return checked.record(Owner, **columns)


def insert_attempt(connection: Connection, attempt: StoredAttempt) -> int:
    """Insert an attempt with all its results, under a new id; return the id."""
    attempt_id = insert_open_attempt(
        connection,
        trial_id=attempt.trial_id,
        number=attempt.number,
        owner=attempt.owner,
        started_utc=attempt.started_utc,
    )
    if attempt.outcome is not None:
        end_attempt(connection, attempt_id, attempt, attempt.ended_utc)
    insert_results(connection, attempt_id, attempt, attempt.artefacts)
    if attempt.outcome is not None:
        digests.sign_attempt(connection, attempt_id)
    return attempt_id


def insert_open_attempt(
    connection: Connection, *, trial_id: str, number: int, owner: Owner, started_utc: str
) -> int:
    """Insert an attempt without results, which ``owner`` starts now; return its id."""
    result = connection.execute(
        insert(schema.attempts).values(
            trial_id=trial_id,
            number=number,
            started_utc=started_utc,
            **{f"owner_{name}": value for name, value in asdict(owner).items()},
        )
    )
    (attempt_id,) = result.inserted_primary_key or (None,)
    assert attempt_id is not None
    return int(attempt_id)


def end_attempt(
    connection: Connection,
    attempt_id: int,
    result: AttemptResult | StoredAttempt,
    ended_utc: str | None,
) -> None:
    """End an attempt with the outcome of ``result``."""
    attempts = schema.attempts
    connection.execute(
        attempts.update()
        .where(attempts.c.id == attempt_id)
        .values(
            ended_utc=ended_utc,
            outcome=result.outcome,
            failed_step=result.failed_step,
            reason=_storable(result.reason),
            log_tail=_storable(result.log_tail),
        )
    )


def _storable(text: str | None) -> str | None:
    """Return text with lone surrogates replaced: logs may contain them, UTF-8 does not."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def insert_results(
    connection: Connection,
    attempt_id: int,
    result: AttemptResult | StoredAttempt,
    artefacts: Sequence[records.ArtefactRecord],
) -> None:
    """Insert the steps, measurements, artefacts and instances of an attempt."""
    own = {"attempt_id": attempt_id}
    insert_all(connection, schema.steps, [own | asdict(step) for step in result.steps])
    measured = [own | {"position": at} | asdict(m) for at, m in enumerate(result.measurements)]
    insert_all(connection, schema.measurements, measured)
    kept = [own | {"position": at} | asdict(each) for at, each in enumerate(artefacts)]
    insert_all(connection, schema.attempt_artefacts, kept)
    for position, instance in enumerate(result.instances):
        _insert_instance(connection, own | {"position": position}, instance)


def insert_all(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, if there are any."""
    if rows:
        connection.execute(insert(table), rows)


def _insert_instance(
    connection: Connection, own: dict[str, Any], instance: records.InstanceRecord
) -> None:
    server = instance.server
    effective, differing = instance.effective, frozenset(server.host_variables)
    shared = {name: effective[name] for name in sorted(effective.keys() - differing)}
    alone = {name: value for name, value in effective.items() if name in differing}
    server_row = asdict(server) | {
        "build": server.build.to_json(),
        "host_variables": list(server.host_variables),
    }
    connection.execute(
        insert(schema.instances).values(
            **own,
            role=instance.role,
            server_sha256=_shared_row(connection, schema.servers, server_row),
            configuration=instance.configuration,
            options=[asdict(option) for option in instance.options],
            variables_sha256=_shared_row(connection, schema.variable_sets, {"variables": shared}),
            own_variables=alone,
            facts=instance.facts.to_json(),
        )
    )


def _shared_row(connection: Connection, table: Table, row: dict[str, Any]) -> str:
    """Insert ``row`` unless an equal row exists; return its key, a SHA-256."""
    canonical = json.dumps(row, sort_keys=True, separators=(",", ":"), allow_nan=False)
    sha256 = hashlib.sha256(canonical.encode()).hexdigest()
    known = connection.execute(select(table.c.sha256).where(table.c.sha256 == sha256)).first()
    if known is None:
        connection.execute(insert(table).values(sha256=sha256, **row))
    return sha256


def stored_run(connection: Connection, run_id: str, from_block: int = 0) -> StoredRun:
    """Return a run with its trials from ``from_block`` on, without its files."""
    treatments, trials = schema.treatments, schema.trials
    mine = and_(trials.c.run_id == run_id, trials.c.block >= from_block)
    (run,) = run_records(connection, schema.runs.c.id == run_id)
    planned = {
        table: connection.execute(select(table).where(which).order_by(table.c.position, table.c.id))
        for table, which in ((treatments, treatments.c.run_id == run_id), (trials, mine))
    }
    stored = StoredRun(
        run=run,
        treatments=tuple(_of_columns(records.TreatmentRecord, row) for row in planned[treatments]),
        trials=tuple(_of_columns(records.TrialRecord, row) for row in planned[trials]),
        attempts=_stored_attempts(connection, mine),
    )
    checked.require_consistent_run(stored)
    return stored


def _stored_attempts(
    connection: Connection, mine: ColumnElement[bool]
) -> tuple[StoredAttempt, ...]:
    attempts, trials = schema.attempts, schema.trials
    changed = digests.changed_attempts(connection, mine)
    everything, mine = mine, and_(mine, attempts.c.id.not_in(changed))
    parts: dict[str, Mapping[int, tuple[Any, ...]]] = {
        name: _by_attempt(connection, mine, table, partial(_of_columns, kind))
        for name, table, kind in _PARTS
    }
    parts["instances"] = instances = _instances(connection, mine)
    query = (
        select(attempts)
        .select_from(attempts.join(trials))
        .where(everything)
        .order_by(trials.c.position, attempts.c.trial_id, attempts.c.number)
    )
    return tuple(
        _changed_attempt(row)
        if row.id in changed
        else checked.record(
            StoredAttempt,
            **{name: getattr(row, name) for name in _ATTEMPT_COLUMNS},
            owner=owner_record(row),
            **{name: found.get(row.id, ()) for name, found in parts.items()},
            limits=observations.limits_of(instances.get(row.id, ())),
        )
        for row in connection.execute(query)
    )


_PARTS: tuple[tuple[str, Table, type[Any]], ...] = (
    ("steps", schema.steps, records.StepRecord),
    ("measurements", schema.measurements, records.MeasurementRecord),
    ("artefacts", schema.attempt_artefacts, records.ArtefactRecord),
)


def _changed_attempt(row: AnyRow) -> StoredAttempt:
    """Return the attempt of a row with a wrong digest: it is failed and has no results."""
    return checked.record(
        StoredAttempt,
        **{name: getattr(row, name) for name in _ATTEMPT_COLUMNS if name not in _OF_AN_END},
        outcome="failed",
        failed_step=CHANGED,
        reason="its rows in the results store were changed after they were written; restore a copy "
        "of the store, or measure again with --new",
        log_tail=None,
        owner=owner_record(row),
        **dict.fromkeys(("steps", "instances", "measurements", "artefacts"), ()),
    )


def _by_attempt(
    connection: Connection, mine: ColumnElement[bool], table: Table, record: Callable[[AnyRow], T]
) -> Mapping[int, tuple[T, ...]]:
    query = (
        select(table)
        .select_from(table.join(schema.attempts).join(schema.trials))
        .where(mine)
        .order_by(table.c.attempt_id, table.c.position)
    )
    found: defaultdict[int, list[T]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.attempt_id].append(record(row))
    return {attempt_id: tuple(records) for attempt_id, records in found.items()}


def _of_columns(kind: type[T], row: AnyRow) -> T:
    names = (each.name for each in fields(kind))  # type: ignore[arg-type]
    return checked.record(kind, **{name: getattr(row, name) for name in names})


def _instances(
    connection: Connection, mine: ColumnElement[bool]
) -> Mapping[int, tuple[records.InstanceRecord, ...]]:
    def used(table: Table, key: str) -> Result[Any]:
        keys = select(schema.instances.c[key])
        keys = keys.select_from(schema.instances.join(schema.attempts).join(schema.trials))
        return connection.execute(select(table).where(table.c.sha256.in_(keys.where(mine))))

    of_servers = used(schema.servers, "server_sha256")
    servers = {row.sha256: _of_columns(records.ServerRecord, row) for row in of_servers}
    of_sets = used(schema.variable_sets, "variables_sha256")
    shared = {row.sha256: row.variables for row in of_sets}

    def record(row: AnyRow) -> records.InstanceRecord:
        variables = (_referred(shared, row.variables_sha256), row.own_variables)
        if not all(isinstance(each, dict) for each in variables):
            raise NotARecord("the variables of an instance are not a JSON object")
        return checked.record(
            records.InstanceRecord,
            role=row.role,
            server=_referred(servers, row.server_sha256),
            configuration=row.configuration,
            options=row.options,
            effective=variables[0] | variables[1],
            facts=row.facts,
        )

    return _by_attempt(connection, mine, schema.instances, record)


def _referred(rows: Mapping[str, T], key: str) -> T:
    if key not in rows:
        raise NotARecord(f"an instance refers to the missing row {key!r}")
    return rows[key]
