"""Provide the results store: runs, their trials and attempts, and all results.

Next to ``results.sqlite`` are ``results.sqlite.artefacts/`` (files by hash),
``results.sqlite.events/`` (one event file per run), and ``reports/`` (one HTML report per run).

A trial's row is inserted before the trial runs. A process claims a trial by inserting an attempt,
and ends the attempt with the result. A resumed run claims the trials without a result; an attempt
that a dead process left open is first ended as interrupted.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Engine, delete, exists, func, select, update

from millrace import atomic_file
from millrace.errors import HostError, MillraceError, UserError
from millrace.model.run_spec import Extension, RunSpec
from millrace.model.trials import kind_of_block
from millrace.store import (
    archive,
    attempt_files,
    checked,
    database,
    digests,
    importing,
    observations,
    records,
    rows,
    schema,
)
from millrace.store.artefacts import Artefacts, write_problem
from millrace.store.histories import Histories
from millrace.store.records import AttemptResult, Owner, RunRecord, RunSummary, StoredRun
from millrace.store.schema import attempt_artefacts as kept
from millrace.store.schema import attempts, runs, trials

IsAlive = Callable[[Owner], bool]

_OF_A_SUMMARY = [each.name for each in fields(RunSummary) if each.name in runs.c]
_NEWEST = "latest"
_NEWEST_FIRST = (runs.c.created_utc.desc(), runs.c.id.desc())


class Store:
    """An open results store; a context manager. Several processes may use a store at once.

    Each method runs in its own transaction.
    """

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self.artefacts = Artefacts(path.with_name(path.name + ".artefacts"))
        self.histories = Histories(path, self._reading, self._writing)
        self._engine = engine

    @classmethod
    def open(cls, path: Path, *, create: bool = True, read_only: bool = False) -> Self:
        """Open the store at ``path``: create it if missing (with ``create``), migrate it if older.

        Raise UserError if the file is missing and ``create`` is False, or if it is not a store,
        damaged, from another version, or not writable (``read_only`` needs write permission only
        to migrate). Raise HostError if the disk is full or another process keeps the store locked.
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

    # Paths and queries.

    def events_path(self, run_id: str) -> Path:
        """Return the event file of a run; it may not exist yet."""
        return self.path.with_name(self.path.name + ".events") / f"{run_id}.jsonl"

    def report_path(self, run_id: str) -> Path:
        """Return the default path of a run's HTML report; it may not exist yet."""
        return self.path.parent / "reports" / f"{run_id}.html"

    def find_run(self, wanted: str, *, trusted: bool = False) -> RunRecord:
        """Return the run whose id starts with ``wanted``; ``latest`` is the newest local run.

        Local runs take precedence over imported runs if ``wanted`` is not a whole id. If the caller
        relies on the run (``trusted``), raise UserError for an imported run unless ``wanted`` is
        its whole id and not the beginning of a local run's id.
        """
        with self._reading() as connection:
            columns = (runs.c.id, runs.c.name, runs.c.created_utc, runs.c.imported_utc)
            known = connection.execute(select(*columns).order_by(*_NEWEST_FIRST)).all()
            if not known:
                raise UserError(
                    f"{self.path}: has no runs yet", hint="measure one with `millrace run FILE`"
                )
            local = [row for row in known if row.imported_utc is None]
            exact = [row for row in known if row.id == wanted]
            begun = [[row for row in of if str(row.id).startswith(wanted)] for of in (local, known)]
            if wanted == _NEWEST:
                matching = local[:1]
                if not matching:
                    raise _no_local_run(self.path, known)
            else:
                matching = exact or begun[0] or begun[1]
            if len(matching) != 1:
                raise _no_single_run(self.path, wanted, matching, known)
            (match,) = matching
            if trusted and match.imported_utc is not None:
                _require_named(self.path, wanted, match, begun[0])
            (found,) = rows.run_records(connection, runs.c.id == match.id)
            return found

    def tested_run(self, ablation: RunRecord) -> RunRecord | None:
        """Return the run that an ablation tested, or None; a local ablation needs a local run."""
        tested = ablation.spec.tested
        if tested is None:
            return None
        found = self._runs_where(runs.c.id == tested.run, _is_trusted_for(ablation.id))
        return next(iter(found), None)

    def runs_of(
        self, digest: str, host_id: str, seed: int | None, *, imported: bool = False
    ) -> list[RunRecord]:
        """Return an experiment's local (or ``imported``) runs on a host, the newest first."""
        return self._runs_where(
            runs.c.digest == digest,
            runs.c.host_id == host_id,
            ~schema.IS_LOCAL if imported else schema.IS_LOCAL,
            *(() if seed is None else (runs.c.seed == seed,)),
        )

    def imported(self, run_ids: Collection[str]) -> frozenset[str]:
        """Return the ids, of ``run_ids``, of imported runs."""
        query = select(runs.c.id).where(~schema.IS_LOCAL)
        with self._reading() as connection:
            return frozenset(connection.scalars(query)) & frozenset(run_ids)

    def finished_trials(self, trial_ids: Collection[str]) -> frozenset[str]:
        """Return the ids, of ``trial_ids``, of finished trials of local runs."""
        wanted = trials.c.id.in_(trial_ids)
        query = (
            select(trials.c.id).join(runs).where(wanted, schema.IS_LOCAL, _has_attempt("finished"))
        )
        with self._reading() as connection:
            return frozenset(connection.scalars(query))

    def runs_of_workload(self, name: str, host_id: str) -> list[RunRecord]:
        """Return the local runs of a workload on a host, the newest first."""
        is_of_workload = runs.c.spec["workload", "name"].as_string() == name
        return self._runs_where(is_of_workload, runs.c.host_id == host_id, schema.IS_LOCAL)

    def ablations_of(self, run_id: str) -> list[RunRecord]:
        """Return a run's ablations, the newest first; for a local run, only local ablations."""
        tested = runs.c.spec["tested", "run"].as_string()
        return self._runs_where(tested == run_id, _is_trusted_for(run_id))

    def calibrations_of(self, run: RunRecord) -> list[RunRecord]:
        """Return the calibrations of a run's host that may be evidence for it, the newest first."""
        is_calibration = runs.c.spec["calibrates", "digest"].as_string().is_not(None)
        is_of_host = runs.c.host_id == run.host.id
        return self._runs_where(is_of_host, is_calibration, _is_trusted_for(run.id))

    def _runs_where(self, *conditions: ColumnElement[bool]) -> list[RunRecord]:
        with self._reading() as connection:
            return rows.run_records(connection, sa.and_(sa.true(), *conditions), *_NEWEST_FIRST)

    def list_runs(self) -> list[RunSummary]:
        """Return a summary of every run, the newest first."""

        def count(*conditions: Any) -> Any:
            counted = select(func.count()).select_from(trials)
            return counted.where(trials.c.run_id == runs.c.id, *conditions).scalar_subquery()

        finished = _has_attempt("finished")
        ended = _has_attempt("finished", "failed")
        query = select(
            *(runs.c[name] for name in _OF_A_SUMMARY),
            sa.case((schema.IS_LOCAL, "local"), else_="imported").label("origin"),
            count(finished).label("finished"),
            count(ended, ~finished).label("failed"),
            count(~ended).label("open"),
        ).order_by(*_NEWEST_FIRST)
        with self._reading() as connection:
            return [checked.record(RunSummary, **row._mapping) for row in connection.execute(query)]

    def load_run(
        self, run_id: str, *, observations_too: bool = False, from_block: int = 0
    ) -> StoredRun:
        """Return the run with exactly this id, with its trials from ``from_block`` on.

        ``observations_too`` reads a hundred times as much data. Raise UserError for an unknown id,
        and DamagedResult if a file of the run is missing or was changed.
        """
        with self._reading() as connection:
            self._require(connection, [run_id])
            stored = rows.stored_run(connection, run_id, from_block)
        return attempt_files.read_back(stored, self.artefacts, observations_too=observations_too)

    def readable_runs(self, runs: Iterable[RunRecord]) -> Iterator[StoredRun]:
        """Yield these runs with their results; skip runs that cannot be read (damaged, say)."""
        for run in runs:
            try:
                stored = self.load_run(run.id)
            except MillraceError:
                continue
            yield stored

    # Runs, trials and attempts.

    def begin_run(
        self,
        run: RunRecord,
        treatments: Sequence[records.TreatmentRecord],
        trials: Sequence[records.TrialRecord],
        *,
        extension: Extension | None = None,
    ) -> None:
        """Insert a run with its treatments and trials, before the first trial starts.

        For an existing run, insert only new treatments and trials; if its number of blocks grows,
        also add ``extension`` to its ``spec``. Trial ids must be unique in the store, so they
        contain the run's id. Raise UserError for an imported run.
        """
        with self._writing() as connection:
            known = connection.execute(select(runs).where(runs.c.id == run.id)).first()
            if known is None:
                connection.execute(sa.insert(runs).values(**rows.run_row(run)))
                digests.sign_run(connection, run.id)
            elif known.imported_utc is not None:
                raise UserError(
                    f"{self.path}: imported run {run.id} cannot get new trials",
                    hint="remove the run, or choose another store with --store PATH; then repeat "
                    "the command",
                )
            elif known.digest != run.digest:
                found = f"{known.digest}, {run.digest}"
                raise ValueError(f"run {run.id} measures another experiment: digests {found}")
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
        """Delete the blocks without a started trial, and reduce the run's ``blocks``."""
        with self._writing() as connection:
            columns = (trials.c.id, trials.c.purpose, trials.c.block, attempts.c.id)
            query = select(*columns).select_from(trials.outerjoin(attempts))
            mine = [
                (trial_id, (kind_of_block(purpose), block), attempt is not None)
                for trial_id, purpose, block, attempt in connection.execute(
                    query.where(trials.c.run_id == run_id)
                )
            ]
            begun = {block for _, block, is_begun in mine if is_begun}
            unbegun = [trial_id for trial_id, block, _ in mine if block not in begun]
            if unbegun:
                one = delete(trials).where(trials.c.id == sa.bindparam("unbegun"))
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
        """Start an attempt of a trial for ``owner``; return the attempt's id.

        Return None if the trial is finished, a living process runs it, or it failed and
        ``retry_failed`` is False. End an open attempt of a dead process as interrupted. Raise
        LookupError for an unknown trial.
        """
        with self._writing() as connection:
            trial = select(trials.c.id).where(trials.c.id == trial_id)
            if connection.execute(trial).first() is None:
                raise LookupError(f"{self.path} has no trial {trial_id}")
            of_trial = select(attempts).where(attempts.c.trial_id == trial_id)
            earlier = connection.execute(of_trial).all()
            outcomes = {row.outcome for row in earlier}
            if "finished" in outcomes or ("failed" in outcomes and not retry_failed):
                return None
            for row in (each for each in earlier if each.outcome is None):
                if is_alive(rows.owner_record(row)):
                    return None
                died = AttemptResult(
                    "interrupted", reason="the millrace process ended before the trial"
                )
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
        """End attempts, by id, with all their results: write files, then rows in one transaction.

        Raise HostError if the disk is full (the attempts then stay open), or if another process
        ended one of the attempts or removed its run meanwhile. Raise ValueError for a measurement
        that is not finite.
        """
        for _, result in ended:
            for measurement in result.measurements:
                if not math.isfinite(measurement.value):
                    raise ValueError(f"{measurement.name} is {measurement.value}, not a number")
        artefacts = [self._keep_all(result) for _, result in ended]
        with self._writing() as connection:
            for (attempt_id, result), kept in zip(ended, artefacts, strict=True):
                self._end(connection, attempt_id, result, kept, now_utc)

    def _end(
        self,
        connection: Connection,
        attempt_id: int,
        result: AttemptResult,
        artefacts: Sequence[records.ArtefactRecord],
        now_utc: str,
    ) -> None:
        outcome = connection.execute(
            select(attempts.c.outcome).where(attempts.c.id == attempt_id)
        ).all()
        if not outcome or outcome[0][0] is not None:
            raise HostError(
                f"{self.path}: the result of attempt {attempt_id} was not stored: "
                f"{'another process ended it' if outcome else 'its run was removed'} meanwhile",
                hint="use only one millrace process per run at a time",
            )
        rows.end_attempt(connection, attempt_id, result, now_utc)
        rows.insert_results(connection, attempt_id, result, artefacts)
        digests.sign_attempt(connection, attempt_id)
        # Write the files again: before this transaction, a removal may have deleted equal files.
        self._keep_all(result)

    def _keep_all(self, result: AttemptResult) -> tuple[records.ArtefactRecord, ...]:
        files = (*attempt_files.of_histograms(result), *observations.files(result))
        return tuple(
            records.ArtefactRecord(kind, self.artefacts.keep(content), len(content), role)
            for kind, role, content in (*result.artefacts, *files)
        )

    # Removing, exporting and importing runs.

    def remove_runs(self, run_ids: Collection[str], *, is_alive: IsAlive) -> None:
        """Remove runs with their results, reports and unshared files; their histories stay.

        Raise UserError, and remove nothing, if a run is unknown or is being measured now.
        """
        with self._writing() as connection:
            names = self._removable(connection, run_ids, is_alive)
            connection.execute(delete(runs).where(runs.c.id.in_(run_ids)))
            used = schema.instances.c
            for shared, key in (
                (schema.servers, used.server_sha256),
                (schema.variable_sets, used.variables_sha256),
            ):
                connection.execute(delete(shared).where(~exists().where(key == shared.c.sha256)))
        # Delete files only after the rows are deleted durably, and under the write lock.
        with self._writing() as connection:
            self.artefacts.discard(names - importing.referred(connection, names))
        self._remove_files(run_ids)

    def free_space(self, run_ids: Collection[str], *, is_alive: IsAlive) -> None:
        """Remove the files of runs, but not their rows: on a full disk, before ``remove_runs``.

        Deleting rows needs free space in the write-ahead log. Raise as ``remove_runs`` does.
        """
        with self._reading() as connection:
            names = self._removable(connection, run_ids, is_alive)
            of_others = kept.join(attempts).join(trials)
            shared = connection.scalars(
                select(kept.c.sha256).select_from(of_others).where(trials.c.run_id.not_in(run_ids))
            )
            self.artefacts.discard(names - set(shared))
        self._remove_files(run_ids)

    def _removable(
        self, connection: Connection, run_ids: Collection[str], is_alive: IsAlive
    ) -> set[str]:
        """Return the names of the runs' files; raise UserError if a run is being measured now."""
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
                    hint="stop that process (Ctrl-C), or wait for its end",
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
        """Write runs with their files and histories to an archive; see ``archive.write``."""
        runs = [self.load_run(run_id) for run_id in run_ids]
        history = self.histories.of_runs(run_ids)
        archive.write(path, runs, self.artefacts, history, replace=replace)

    def import_file(self, path: Path) -> importing.Imported:
        """Add an archive's new runs and points, all or none; UserError for an invalid archive."""
        return importing.import_file(path, self.artefacts, self._writing)

    def _require(self, connection: Connection, run_ids: Collection[str]) -> None:
        known = set(connection.scalars(select(runs.c.id)))
        for run_id in run_ids:
            if run_id not in known:
                raise UserError(
                    f"{self.path}: has no run {run_id}",
                    hint="`millrace results list` shows all runs",
                )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with database.user_errors(self.path), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with database.user_errors(self.path), database.writing(self._engine) as connection:
            yield connection


def _is_trusted_for(run_id: str) -> ColumnElement[bool]:
    """Return the condition for runs that may be evidence: local ones, if this run is local."""
    of_run = runs.alias()
    is_imported = exists().where(of_run.c.id == run_id, of_run.c.imported_utc.is_not(None))
    return sa.or_(schema.IS_LOCAL, is_imported)


def _has_attempt(*outcomes: str) -> Any:
    return exists().where(attempts.c.trial_id == trials.c.id, attempts.c.outcome.in_(outcomes))


def _no_single_run(
    path: Path, wanted: str, matching: Sequence[Any], known: Sequence[Any]
) -> UserError:
    lines = _lines(matching or known)
    if matching:
        message = f"{path}: {len(matching)} runs have an id that starts with {wanted!r}:\n{lines}"
        return UserError(message, hint="give more characters of the id, or `latest`")
    message = f"{path}: no run has an id that starts with {wanted!r}; the newest are:\n{lines}"
    return UserError(message, hint="`millrace results list` shows all runs")


def _no_local_run(path: Path, known: Sequence[Any]) -> UserError:
    return UserError(
        f"{path}: has only imported runs, and `{_NEWEST}` is the newest run that was measured "
        f"here; the newest imported runs are:\n{_lines(known)}",
        hint="give the id of a run",
    )


def _require_named(path: Path, wanted: str, found: Any, local: Sequence[Any]) -> None:
    """Raise UserError unless ``wanted`` clearly means the imported run that it matched."""
    if wanted != found.id:
        raise UserError(
            f"{path}: {wanted!r} matches only run {found.id}, which was imported and not measured "
            "here",
            hint=f"give the whole id, {found.id}, if you trust the author of the file",
        )
    if local:
        raise UserError(
            f"{path}: {wanted!r} is the id of an imported run, and also the beginning of the ids "
            f"of runs measured here:\n{_lines(local)}",
            hint="give more characters of the id",
        )


def _lines(found: Sequence[Any]) -> str:
    """Return a line for each of the first few runs."""
    return "\n".join(
        f"  {row.id}  {row.name}  {row.created_utc}"
        + ("" if row.imported_utc is None else "  imported")
        for row in found[:8]
    )
