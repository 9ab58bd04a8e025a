"""Provide the results store: the ledger of trials, and all their results.

Next to ``results.sqlite`` are ``results.sqlite.artefacts/`` (files by hash),
``results.sqlite.events/`` (one event file a run), and ``reports/`` (one HTML report a run).

A trial is a row before it runs. An attempt is a row that is claimed before it starts and ended by
its process. Resuming means claiming the trials without an end; an attempt that a dead process left
open is first ended as interrupted.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, Engine, bindparam, delete, exists, insert, select, update

from millrace import atomic_file
from millrace.errors import HostError, UserError
from millrace.model.run_spec import Extension, RunSpec
from millrace.model.trials import kind_of_block
from millrace.store import (
    archive_writer,
    database,
    digests,
    histograms,
    importing,
    observations,
    rows,
    schema,
)
from millrace.store.artefacts import write_problem
from millrace.store.histories import Histories
from millrace.store.queries import StoreReader
from millrace.store.records import (
    ArtefactRecord,
    AttemptResult,
    Owner,
    RunRecord,
    TreatmentRecord,
    TrialRecord,
)

IsAlive = Callable[[Owner], bool]


class Store(StoreReader):
    """An open results store; a context manager. Safe for several processes at once."""

    def __init__(self, path: Path, engine: Engine) -> None:
        super().__init__(path, engine)
        self.histories = Histories(path, self._reading, self._writing)

    @classmethod
    def open(cls, path: Path, *, create: bool = True, read_only: bool = False) -> Self:
        """Open the store at ``path``, created when missing (``create``) and upgraded when older.

        Raises UserError when there is none and ``create`` is False, when the file is something
        else, damaged, of an unknown version or not writable (``read_only`` needs write permission
        only to upgrade an older store); HostError when the disk is full or it stays locked.
        """
        store = cls(path, database.open_engine(path, create=create, read_only=read_only))
        if not read_only:
            importing.settle_killed(store.artefacts, store._writing)
            store.artefacts.remove_abandoned()
            atomic_file.remove_abandoned(store.report_path("").parent)
        return store

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The ledger.

    def begin_run(
        self,
        run: RunRecord,
        treatments: Sequence[TreatmentRecord],
        trials: Sequence[TrialRecord],
        *,
        extension: Extension | None = None,
    ) -> None:
        """Record a run with its trials before the first one starts.

        An existing run only gets new trials (and treatments), and if ``blocks`` grows, the
        ``extension`` of its ``spec``. Trial ids are unique in the whole store, so they contain the
        run's.
        """
        runs = schema.runs
        with self._writing() as connection:
            known = connection.execute(
                select(runs.c.digest, runs.c.blocks, runs.c.spec, runs.c.imported_utc).where(
                    runs.c.id == run.id
                )
            ).first()
            if known is None:
                connection.execute(insert(runs).values(**rows.run_row(run)))
                digests.sign_run(connection, run.id)
            elif known.imported_utc is not None:
                raise UserError(
                    f"{self.path}: run {run.id} was imported, and gets no trials of this host",
                    hint="remove it, or use another store (--store PATH), and run it again",
                )
            elif known.digest != run.digest:
                raise ValueError(
                    f"run {run.id} measures something else: {known.digest}, {run.digest}"
                )
            elif known.blocks < run.blocks:
                grown = update(runs).where(runs.c.id == run.id).values(blocks=run.blocks)
                if extension is not None:
                    spec = RunSpec.model_validate(known.spec)
                    added = extension.replace(blocks=run.blocks)
                    spec = spec.replace(extensions=(*(spec.extensions or ()), added))
                    grown = grown.values(spec=spec.to_json())
                connection.execute(grown)
                digests.sign_run(connection, run.id)
            rows.insert_plan(connection, run.id, treatments, trials)

    def delete_unstarted_blocks(self, run_id: str) -> None:
        """Remove blocks without a started trial, to be decided again; ``blocks`` shrinks."""
        runs, trials, attempts = schema.runs, schema.trials, schema.attempts
        with self._writing() as connection:
            mine = connection.execute(
                select(
                    trials.c.id, trials.c.block, trials.c.purpose, attempts.c.id.label("attempt")
                )
                .select_from(trials.outerjoin(attempts))
                .where(trials.c.run_id == run_id)
            ).all()
            begun = {
                (kind_of_block(row.purpose), row.block) for row in mine if row.attempt is not None
            }
            unbegun = [
                row.id for row in mine if (kind_of_block(row.purpose), row.block) not in begun
            ]
            if unbegun:
                one = delete(trials).where(trials.c.id == bindparam("unbegun"))
                connection.execute(one, [{"unbegun": trial_id} for trial_id in unbegun])
            left = max((block + 1 for kind, block in begun if kind == "measure"), default=0)
            connection.execute(update(runs).where(runs.c.id == run_id).values(blocks=left))
            digests.sign_run(connection, run_id)

    def claim(
        self,
        trial_id: str,
        owner: Owner,
        now_utc: str,
        *,
        is_alive: IsAlive,
        retry_failed: bool = False,
    ) -> int | None:
        """Start an attempt of a trial for ``owner`` and return its id.

        Return None where the trial is finished, a living owner runs it, or it failed (and is not
        retried). A dead owner's attempt is ended as interrupted. Raises LookupError for an unknown
        trial.
        """
        attempts = schema.attempts
        with self._writing() as connection:
            trial = select(schema.trials.c.id).where(schema.trials.c.id == trial_id)
            if connection.execute(trial).first() is None:
                raise LookupError(f"{self.path} has no trial {trial_id}")
            earlier = connection.execute(
                select(attempts).where(attempts.c.trial_id == trial_id)
            ).all()
            outcomes = {row.outcome for row in earlier}
            if "finished" in outcomes or ("failed" in outcomes and not retry_failed):
                return None
            for row in earlier:
                if row.outcome is not None:
                    continue
                if is_alive(rows.owner_record(row)):
                    return None
                died = AttemptResult("interrupted", reason="its process ended before the trial did")
                rows.end_attempt(connection, row.id, died, now_utc)
                digests.sign_attempt(connection, row.id)
            number = max((row.number for row in earlier), default=0) + 1
            return rows.insert_open_attempt(
                connection, trial_id=trial_id, number=number, owner=owner, started_utc=now_utc
            )

    def finish(self, attempt_id: int, result: AttemptResult, now_utc: str) -> None:
        """End an attempt with all its results; see ``finish_attempts``."""
        self.finish_attempts([(attempt_id, result)], now_utc)

    def finish_attempts(self, ended: Sequence[tuple[int, AttemptResult]], now_utc: str) -> None:
        """End attempts, by id, with all their results, in one transaction after their files.

        Raises HostError when the disk is full (the attempts are then still open), or when another
        process has ended one of them in the meantime.
        """
        for _, result in ended:
            for measurement in result.measurements:
                if not math.isfinite(measurement.value):
                    said = f"{measurement.name} is {measurement.value}"
                    raise ValueError(f"{said}, not a measurement")
        artefacts = [self._keep_all(result) for _, result in ended]
        with self._writing() as connection:
            for (attempt_id, result), kept in zip(ended, artefacts, strict=True):
                self._end(connection, attempt_id, result, kept, now_utc)

    def _end(
        self,
        connection: Connection,
        attempt_id: int,
        result: AttemptResult,
        artefacts: Sequence[ArtefactRecord],
        now_utc: str,
    ) -> None:
        outcome = connection.execute(
            select(schema.attempts.c.outcome).where(schema.attempts.c.id == attempt_id)
        ).all()
        if not outcome or outcome[0][0] is not None:
            raise HostError(
                f"{self.path}: the result of attempt {attempt_id} was not kept: "
                f"{'another process ended it' if outcome else 'its run was removed'} meanwhile",
                hint="let one millrace at a time work on a run",
            )
        rows.end_attempt(connection, attempt_id, result, now_utc)
        rows.insert_results(connection, attempt_id, result, artefacts)
        digests.sign_attempt(connection, attempt_id)
        # Write again, now that no removal can interfere: one may have discarded an equal file.
        self._keep_all(result)

    def _keep_all(self, result: AttemptResult) -> tuple[ArtefactRecord, ...]:
        return tuple(
            ArtefactRecord(new.kind, self.artefacts.keep(new.content), len(new.content), new.role)
            for new in (
                *result.artefacts,
                *histograms.as_artefact(result),
                *observations.as_artefacts(result),
            )
        )

    # Removing, exporting and importing runs.

    def remove_runs(self, run_ids: Collection[str], *, is_alive: IsAlive) -> None:
        """Remove runs with results, reports, and files of no other run, but not their histories.

        Raises UserError, and removes nothing, when one is unknown or is being measured now.
        """
        runs = schema.runs
        with self._writing() as connection:
            names = self._removable(connection, run_ids, is_alive)
            connection.execute(delete(runs).where(runs.c.id.in_(run_ids)))
            used = schema.instances.c
            for shared, key in (
                (schema.servers, used.server_sha256),
                (schema.variable_sets, used.variables_sha256),
            ):
                connection.execute(delete(shared).where(~exists().where(key == shared.c.sha256)))
        # Files go only after the rows are gone durably, and while nothing else can refer to them.
        with self._writing() as connection:
            self.artefacts.discard(names - importing.referred(connection, names))
        self._remove_files(run_ids)

    def free_space(self, run_ids: Collection[str], *, is_alive: IsAlive) -> None:
        """Remove the files of runs that are about to be removed, where the disk is full.

        Their rows, which take space while they are removed, stay. Raises like ``remove_runs``.
        """
        with self._reading() as connection:
            names = self._removable(connection, run_ids, is_alive)
            kept, trials = schema.attempt_artefacts, schema.trials
            of_others = kept.join(schema.attempts).join(trials)
            shared = connection.scalars(
                select(kept.c.sha256).select_from(of_others).where(trials.c.run_id.not_in(run_ids))
            )
            self.artefacts.discard(names - set(shared))
        self._remove_files(run_ids)

    def _removable(
        self, connection: Connection, run_ids: Collection[str], is_alive: IsAlive
    ) -> set[str]:
        """Return the names of the files that runs refer to; UserError where one is measured now."""
        trials, attempts, kept = schema.trials, schema.attempts, schema.attempt_artefacts
        self._require(connection, run_ids)
        mine = trials.c.run_id.in_(run_ids)
        for row in connection.execute(
            select(trials.c.run_id, attempts)
            .select_from(attempts.join(trials))
            .where(mine, attempts.c.outcome.is_(None))
        ):
            if is_alive(rows.owner_record(row)):
                raise UserError(
                    f"run {row.run_id} is being measured by process {row.owner_pid}",
                    hint="stop it first (Ctrl-C), or wait for its end",
                )
        query = select(kept.c.sha256).select_from(kept.join(attempts).join(trials)).where(mine)
        return set(connection.scalars(query.distinct()))

    def _remove_files(self, run_ids: Collection[str]) -> None:
        """Remove the event files and reports of runs."""
        for run_id in run_ids:
            for file in (self.events_path(run_id), self.report_path(run_id)):
                try:
                    file.unlink(missing_ok=True)
                except OSError as error:
                    raise write_problem(file, error) from error

    def export_runs(self, run_ids: Sequence[str], path: Path, *, replace: bool = False) -> None:
        """Write runs, files and histories into one archive; see ``archive_writer.write``."""
        runs = [self.load_run(run_id) for run_id in run_ids]
        history = self.histories.of_runs(run_ids)
        archive_writer.write(path, runs, self.artefacts, history, replace=replace)

    def import_file(self, path: Path) -> importing.Imported:
        """Add an archive's new runs and points, all or none; UserError for a wrong file."""
        return importing.import_file(path, self.artefacts, self._writing)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with database.user_errors(self.path), database.writing(self._engine) as connection:
            yield connection
