"""Provide the results store: the ledger of trials, and all their results.

Next to ``results.sqlite`` are ``results.sqlite.artefacts/`` (files by hash),
``results.sqlite.events/`` (one event file a run, see ``millrace.store.events``), and ``reports/``
(one HTML report a run, which can be made again at any time).

The ledger. A trial is a row before it runs. An attempt is a row that is claimed before it starts
and ended by the process that ran it. Resuming a run means claiming its trials that have no end. A
process that died leaves its attempt open; the next process that claims the trial first ends it as
interrupted.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, bindparam, delete, exists, func, insert, select, update

from millrace import atomic_file
from millrace.errors import HostError, UserError
from millrace.model.run_spec import Extension, RunSpec
from millrace.store import (
    archive_writer,
    checked,
    database,
    histograms,
    importing,
    observations,
    rows,
    schema,
    series,
)
from millrace.store.artefacts import Artefacts, write_problem
from millrace.store.histories import Histories
from millrace.store.records import (
    ArtefactRecord,
    AttemptResult,
    Owner,
    RunRecord,
    RunSummary,
    StoredRun,
    TreatmentRecord,
    TrialRecord,
)

IsAlive = Callable[[Owner], bool]


class Store:
    """An open results store; a context manager. Safe for several processes at once."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self.artefacts = Artefacts(path.with_name(path.name + ".artefacts"))
        self._engine = engine
        self.histories = Histories(path, self._reading, self._writing)

    @classmethod
    def open(cls, path: Path, *, create: bool = True, read_only: bool = False) -> Self:
        """Open the store at ``path``, created when missing (``create``) and upgraded when older.

        Raises UserError when there is none and ``create`` is False, when the file is something
        else, damaged, of a newer millrace or not writable (``read_only`` needs write permission
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def events_path(self, run_id: str) -> Path:
        """Return the event file of a run; it may not exist yet."""
        return self.path.with_name(self.path.name + ".events") / f"{run_id}.jsonl"

    def report_path(self, run_id: str) -> Path:
        """Return the default path of a run's HTML report; it may not exist yet."""
        return self.path.parent / "reports" / f"{run_id}.html"

    # The ledger, written by the runner.

    def begin_run(
        self,
        run: RunRecord,
        treatments: Sequence[TreatmentRecord],
        trials: Sequence[TrialRecord],
        *,
        extension: Extension | None = None,
    ) -> None:
        """Record a run with its trials before the first one starts.

        For an existing run, only new trials (and treatments) are added, and ``blocks`` grows;
        everything else stays as first recorded. When the run grows, its ``spec`` stores
        ``extension``. Trial ids are unique in the whole store, so they contain the run's.
        """
        runs = schema.runs
        with self._writing() as connection:
            known = connection.execute(
                select(runs.c.digest, runs.c.blocks, runs.c.spec).where(runs.c.id == run.id)
            ).first()
            if known is None:
                connection.execute(insert(runs).values(**rows.run_row(run)))
            elif known.digest != run.digest:
                raise ValueError(
                    f"run {run.id} measures something else: {known.digest}, {run.digest}"
                )
            elif known.blocks < run.blocks:
                grown = update(runs).where(runs.c.id == run.id).values(blocks=run.blocks)
                if extension is not None:
                    grown = grown.values(
                        spec=_extended(known.spec, extension.replace(blocks=run.blocks))
                    )
                connection.execute(grown)
            rows.insert_missing(
                connection, schema.treatments, [rows.treatment_row(run.id, t) for t in treatments]
            )
            rows.insert_missing(
                connection, schema.trials, [rows.trial_row(run.id, t) for t in trials]
            )

    def delete_unstarted_blocks(self, run_id: str) -> None:
        """Remove the blocks of a run in which no trial was started.

        They can then be decided again. ``blocks`` is then the number of the remaining ones.
        """
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
                (row.purpose == "profile", row.block) for row in mine if row.attempt is not None
            }
            unbegun = [row.id for row in mine if (row.purpose == "profile", row.block) not in begun]
            if unbegun:
                one = delete(trials).where(trials.c.id == bindparam("unbegun"))
                connection.execute(one, [{"unbegun": trial_id} for trial_id in unbegun])
            left = max((block + 1 for is_profile, block in begun if not is_profile), default=0)
            connection.execute(update(runs).where(runs.c.id == run_id).values(blocks=left))

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

        Return None when there is nothing to do: the trial is finished, a living owner runs it, or
        it failed (and is not retried).

        An attempt whose owner is not alive is ended as interrupted. Raises LookupError for a trial
        that was never recorded.
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
                rows.end_attempt(
                    connection,
                    row.id,
                    ended_utc=now_utc,
                    outcome="interrupted",
                    reason="its process ended before the trial did",
                )
            number = max((row.number for row in earlier), default=0) + 1
            return rows.insert_open_attempt(
                connection,
                trial_id=trial_id,
                number=number,
                owner=owner,
                started_utc=now_utc,
            )

    def finish(self, attempt_id: int, result: AttemptResult, now_utc: str) -> None:
        """End an attempt with all its results; see ``finish_attempts``."""
        self.finish_attempts([(attempt_id, result)], now_utc)

    def finish_attempts(self, ended: Sequence[tuple[int, AttemptResult]], now_utc: str) -> None:
        """End attempts, by id, with all their results, in one transaction.

        All of them are ended or none. Their files are written first.

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
        rows.end_attempt(
            connection,
            attempt_id,
            ended_utc=now_utc,
            outcome=result.outcome,
            failed_step=result.failed_step,
            reason=result.reason,
            log_tail=result.log_tail,
        )
        rows.insert_yield(connection, attempt_id, result, artefacts)
        # Write again, now that no removal can interfere: one may have discarded an equal file.
        self._keep_all(result)

    def _keep_all(self, result: AttemptResult) -> tuple[ArtefactRecord, ...]:
        return tuple(
            ArtefactRecord(kind, self.artefacts.keep(content), len(content), role)
            for kind, role, content in (
                *result.artefacts,
                *histograms.as_artefact(result),
                *observations.as_artefacts(result),
            )
        )

    # Reading.

    def find_run(self, wanted: str) -> RunRecord:
        """Return the run whose id starts with ``wanted``, or the newest one for ``latest``."""
        runs = schema.runs
        with self._reading() as connection:
            known = connection.execute(
                select(runs.c.id, runs.c.name, runs.c.created_utc).order_by(*_newest_first())
            ).all()
            if not known:
                raise UserError(
                    f"{self.path}: holds no runs yet", hint="make one with `millrace run FILE`"
                )
            exact = [row for row in known if row.id == wanted]
            matching = exact or [row for row in known if str(row.id).startswith(wanted)]
            if wanted == "latest":
                matching = list(known[:1])
            if len(matching) != 1:
                raise _which_run(self.path, wanted, matching, known)
            found = select(runs).where(runs.c.id == matching[0].id)
            return rows.run_record(connection.execute(found).one())

    def runs_of(
        self, digest: str, host_id: str, seed: int | None, *, imported: bool = False
    ) -> list[RunRecord]:
        """Return the runs of this experiment (by digest) on this host, the newest first.

        With ``seed`` only those in that order. They were measured here, or else all ``imported``.
        """
        runs = schema.runs
        query = select(runs).where(
            runs.c.digest == digest,
            runs.c.host_id == host_id,
            runs.c.imported_utc.is_not(None) if imported else runs.c.imported_utc.is_(None),
        )
        if seed is not None:
            query = query.where(runs.c.seed == seed)
        with self._reading() as connection:
            found = connection.execute(query.order_by(*_newest_first()))
            return [rows.run_record(row) for row in found]

    def tests_of(self, run_id: str) -> list[RunRecord]:
        """Return the ablations of a run, the newest first.

        For a run that was measured here, only ablations measured here.
        """
        runs = schema.runs
        query = select(runs).where(
            runs.c.spec["tested", "run"].as_string() == run_id, importing.is_trusted_for(run_id)
        )
        with self._reading() as connection:
            found = connection.execute(query.order_by(*_newest_first()))
            return [rows.run_record(row) for row in found]

    def calibrations_of(self, run: RunRecord) -> list[RunRecord]:
        """Return the runs that calibrate a run's host, the newest first.

        For a run that was, or will be, measured here, only calibrations measured here.
        """
        runs = schema.runs
        digest = runs.c.spec["calibrates", "digest"].as_string()
        query = select(runs).where(
            runs.c.host_id == run.host.id, digest.is_not(None), importing.is_trusted_for(run.id)
        )
        with self._reading() as connection:
            found = connection.execute(query.order_by(*_newest_first()))
            return [rows.run_record(row) for row in found]

    def list_runs(self) -> list[RunSummary]:
        """Return every run in one line, the newest first."""
        runs, trials = schema.runs, schema.trials
        names = (
            "id", "name", "title", "scale", "created_utc", "digest", "seed", "blocks", "host_id",
        )  # fmt: skip

        def count(*conditions: Any) -> Any:
            counted = select(func.count()).select_from(trials)
            return counted.where(trials.c.run_id == runs.c.id, *conditions).scalar_subquery()

        finished = _has_attempt("finished")
        ended = _has_attempt("finished", "failed")
        query = select(
            *(runs.c[name] for name in names),
            count(finished).label("finished"),
            count(ended, ~finished).label("failed"),
            count(~ended).label("open"),
        ).order_by(*_newest_first())
        with self._reading() as connection:
            return [checked.record(RunSummary, **row._mapping) for row in connection.execute(query)]

    def load_run(
        self, run_id: str, *, observations_too: bool = False, from_block: int = 0
    ) -> StoredRun:
        """Return the run with exactly this id; raise UserError when there is none.

        Observations are read only with ``observations_too``: they are a hundred times as large as
        everything else. With ``from_block`` only the trials from that block on are read.

        Raises HostError when a file that it reads is missing or was changed.
        """
        with self._reading() as connection:
            self._require(connection, [run_id])
            stored = rows.stored_run(connection, run_id, from_block)
        stored = series.read_back(histograms.read_back(stored, self.artefacts), self.artefacts)
        return observations.read_back(stored, self.artefacts) if observations_too else stored

    # Keeping house.

    def remove_runs(self, run_ids: Collection[str], *, is_alive: IsAlive) -> None:
        """Remove runs with their results, reports, and the files that no other run refers to.

        Their points of histories stay (see ``Histories.forget``).

        Raises UserError, and removes nothing, when one is unknown or is being measured now.
        """
        runs, trials, attempts = schema.runs, schema.trials, schema.attempts
        kept = schema.attempt_artefacts
        with self._writing() as connection:
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
            names = set(
                connection.scalars(
                    select(kept.c.sha256)
                    .select_from(kept.join(attempts).join(trials))
                    .where(mine)
                    .distinct()
                )
            )
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
        for run_id in run_ids:
            for file in (self.events_path(run_id), self.report_path(run_id)):
                try:
                    file.unlink(missing_ok=True)
                except OSError as error:
                    # No file has a name of that length; an earlier millrace imported such ids.
                    if error.errno != errno.ENAMETOOLONG:
                        raise write_problem(file, error) from error

    def export_runs(self, run_ids: Sequence[str], path: Path, *, replace: bool = False) -> None:
        """Write runs with their files and points of histories into one archive.

        See ``millrace.store.archive_writer``.

        Raises UserError for an existing file unless ``replace``.
        """
        runs = [self.load_run(run_id) for run_id in run_ids]
        history = self.histories.of_runs(run_ids)
        archive_writer.write(path, runs, self.artefacts, history, replace=replace)

    def import_file(self, path: Path) -> importing.Imported:
        """Add the runs of an archive with their points of histories, all or none.

        Existing runs are skipped.

        Raises UserError, and changes nothing, when anything in the file is wrong.
        """
        return importing.import_file(path, self.artefacts, self._writing)

    def _require(self, connection: Connection, run_ids: Collection[str]) -> None:
        known = set(connection.scalars(select(schema.runs.c.id)))
        for run_id in run_ids:
            if run_id not in known:
                raise UserError(
                    f"{self.path}: holds no run {run_id}", hint="see `millrace results list`"
                )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with database.told(self.path), database.reading(self._engine) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with database.told(self.path), database.writing(self._engine) as connection:
            yield connection


def _newest_first() -> tuple[Any, Any]:
    return schema.runs.c.created_utc.desc(), schema.runs.c.id.desc()


def _extended(document: object, extension: Extension) -> dict[str, Any]:
    """Return the specification of a run that gets more blocks."""
    spec = RunSpec.model_validate(document)
    return spec.replace(extensions=(*(spec.extensions or ()), extension)).to_json()


def _has_attempt(*outcomes: str) -> Any:
    attempts, trials = schema.attempts, schema.trials
    return exists().where(attempts.c.trial_id == trials.c.id, attempts.c.outcome.in_(outcomes))


def _which_run(path: Path, wanted: str, matching: Sequence[Any], known: Sequence[Any]) -> UserError:
    """Return the error for a prefix that fits no run, or more than one."""
    shown = (matching or known)[:8]
    lines = "\n".join(f"  {row.id}  {row.name}  {row.created_utc}" for row in shown)
    if matching:
        message = f"{path}: {len(matching)} runs have an id that starts with {wanted!r}:\n{lines}"
        return UserError(message, hint="give more characters of the id, or `latest`")
    message = f"{path}: no run has an id that starts with {wanted!r}; the newest are:\n{lines}"
    return UserError(message, hint="see `millrace results list`")
