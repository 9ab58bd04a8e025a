"""Import an archive of runs, all of it in one transaction, or nothing at all.

Its artefacts are first written into a staging area. The transaction inserts the new runs and moves
their artefacts into place, after a list of them was written. A failed import removes the listed
files that no run refers to; after a killed one the next command that writes does.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, insert, select

from millrace.errors import UserError
from millrace.quantities import utc_now
from millrace.store import archive, digests, rows, schema
from millrace.store.artefacts import Artefacts, Staged
from millrace.store.histories import add_imported

Transaction = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True)
class Imported:
    """Ids of the added runs, of the existing runs, and of existing runs without history here.

    For the last, the file has points that no history of this store has.
    """

    added: tuple[str, ...]
    present: tuple[str, ...]
    unrecorded: tuple[str, ...]


def import_file(path: Path, artefacts: Artefacts, writing: Transaction) -> Imported:
    """Add the runs of a file; see ``Store.import_file``."""
    with archive.reading(path) as found, artefacts.staging() as staged:
        found.stage(staged)
        try:
            with writing() as connection:
                return _add(connection, path, found, artefacts, staged)
        except BaseException:
            _settle(artefacts, staged, writing)
            raise


def settle_killed(artefacts: Artefacts, writing: Transaction) -> None:
    """Remove the remains of killed imports."""
    for staged in artefacts.unsettled():
        _settle(artefacts, staged, writing)


def referred(connection: Connection, names: Collection[str]) -> set[str]:
    """Return those of the artefacts ``names`` that a run refers to."""
    kept = schema.attempt_artefacts.c.sha256
    return {name for name in connection.scalars(select(kept).distinct()) if name in names}


def _add(
    connection: Connection,
    path: Path,
    found: archive.RunArchive,
    artefacts: Artefacts,
    staged: Staged,
) -> Imported:
    ids = select(schema.runs.c.id)
    known = set(connection.scalars(ids))
    local = set(connection.scalars(ids.where(schema.runs.c.imported_utc.is_(None))))
    added = [entry for entry in found.runs if entry.id not in known]
    new = {entry.id for entry in added}
    trials = {trial: run_id for trial, run_id in found.trials.items() if run_id in new}
    _refuse_names_of_local_runs(path, new, trials, local)
    _refuse_known_trials(connection, path, trials)
    names: dict[str, None] = {}
    for entry in added:
        stored = found.run(entry)
        imported = {**rows.run_row(stored.run), "imported_utc": utc_now()}
        connection.execute(insert(schema.runs).values(**imported))
        digests.sign_run(connection, stored.run.id)
        rows.insert_plan(connection, stored.run.id, stored.treatments, stored.trials)
        for attempt in stored.attempts:
            rows.insert_attempt(connection, attempt)
        names |= dict.fromkeys(a.sha256 for each in stored.attempts for a in each.artefacts)
    # The file's author can have given points to a run that the file lacks.
    add_imported(connection, path, found.history, of_runs=new)
    artefacts.adopt(staged, names)
    present = tuple(entry.id for entry in found.runs if entry.id in known)
    recorded = set(connection.scalars(select(schema.history_recordings.c.run_id).distinct()))
    missing = {point.run_id for _, point in found.history.points} - recorded
    return Imported(
        added=tuple(entry.id for entry in added),
        present=present,
        unrecorded=tuple(run_id for run_id in present if run_id in missing),
    )


def _settle(artefacts: Artefacts, staged: Staged, writing: Transaction) -> None:
    names = staged.adopted()
    if names:
        with writing() as connection:
            artefacts.discard(names - referred(connection, names))


def _refuse_names_of_local_runs(
    path: Path, new: Collection[str], trials: Mapping[str, str], local: Collection[str]
) -> None:
    """Raise UserError where ids of a file stand for runs that were measured here.

    A user may name such a run by that beginning of its id, and a run that gets more blocks needs
    the ids of its trials. ``trials`` are ids of runs by those of their trials.
    """
    for run_id in sorted(new):
        mistaken = [each for each in local if each.startswith(run_id)]
        if mistaken:
            raise UserError(
                f"{path}: the id of run {run_id} is the beginning of that of run {mistaken[0]}, "
                "which was measured here; nothing was imported",
                hint="import it into a store of its own with --store PATH",
            )
    for trial, run_id in trials.items():
        named, slash, _ = trial.partition("/")
        if slash and named != run_id and named in local:
            raise UserError(
                f"{path}: trial {trial} of run {run_id} has an id of run {named}, which was "
                "measured here; nothing was imported",
                hint="ask whoever made the file for an export that was not changed",
            )


def _refuse_known_trials(connection: Connection, path: Path, trials: Iterable[str]) -> None:
    known = set(connection.scalars(select(schema.trials.c.id)))
    for trial in trials:
        if trial in known:
            raise UserError(
                f"{path}: trial {trial} is already in the store, as one of another run; "
                "nothing was imported",
                hint="import it into a store of its own with --store PATH",
            )
