"""Import an archive of runs: everything in one transaction, or nothing.

The archive's files are first written to a staging area. The transaction inserts the new runs,
writes a list of their files, and moves the files into the store. If the import fails, it removes
the listed files that no run refers to; if it was killed, the next command that writes does so.
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
    """The ids of runs that were added, or already ``present``.

    ``unrecorded`` are present runs whose points are in the archive but not in this store.
    """

    added: tuple[str, ...]
    present: tuple[str, ...]
    unrecorded: tuple[str, ...]


def import_file(path: Path, artefacts: Artefacts, writing: Transaction) -> Imported:
    """Import the runs of an archive; see ``Store.import_file``."""
    with archive.reading(path) as found, artefacts.staging() as staged:
        found.stage(staged)
        try:
            with writing() as connection:
                return _add(connection, path, found, artefacts, staged)
        except BaseException:
            _settle(artefacts, staged, writing)
            raise


def settle_killed(artefacts: Artefacts, writing: Transaction) -> None:
    """Remove staging areas and unused files that killed imports left behind."""
    for staged in artefacts.unsettled():
        _settle(artefacts, staged, writing)


def referred(connection: Connection, names: Collection[str]) -> set[str]:
    """Return the names from ``names`` of the artefacts that a run refers to."""
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
    local = set(connection.scalars(ids.where(schema.IS_LOCAL)))
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
    # A malicious archive may have points of runs that it does not contain.
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
    """Raise UserError if an id in the archive could be mistaken for one of a local run.

    A run's id must not be the beginning of a local run's id, since users abbreviate ids. A trial's
    id must not contain a local run's id, since that run may need it for new blocks. ``trials`` maps
    ids of trials to ids of runs.
    """
    for run_id in sorted(new):
        mistaken = [each for each in local if each.startswith(run_id)]
        if mistaken:
            raise UserError(
                f"{path}: the id of run {run_id} is the beginning of the id {mistaken[0]} of a run "
                "that was measured here; nothing was imported",
                hint="import the file into another store with --store PATH",
            )
    for trial, run_id in trials.items():
        named, slash, _ = trial.partition("/")
        if slash and named != run_id and named in local:
            raise UserError(
                f"{path}: the id of trial {trial} of run {run_id} belongs to run {named}, which "
                "was measured here; nothing was imported",
                hint="the file was changed: ask its author for the original",
            )


def _refuse_known_trials(connection: Connection, path: Path, trials: Iterable[str]) -> None:
    known = set(connection.scalars(select(schema.trials.c.id)))
    for trial in trials:
        if trial in known:
            raise UserError(
                f"{path}: trial {trial} is already in the store, in another run; nothing was "
                "imported",
                hint="import the file into another store with --store PATH",
            )
