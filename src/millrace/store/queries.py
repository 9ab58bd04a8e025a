"""Read the results store: its runs, and the places of their files."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, case, exists, func, select, true

from millrace.errors import MillraceError, UserError
from millrace.store import checked, database, importing, rows
from millrace.store.artefacts import Artefacts
from millrace.store.attempt_files import read_back
from millrace.store.records import RunRecord, RunSummary, StoredRun
from millrace.store.schema import attempts, runs, trials

_OF_A_SUMMARY = (
    "id", "name", "title", "scale", "created_utc", "digest", "seed", "blocks", "host_id",
)  # fmt: skip
_NEWEST = "latest"
_NEWEST_FIRST = (runs.c.created_utc.desc(), runs.c.id.desc())


class StoreReader:
    """The queries of an open results store; each is a transaction of its own."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self.artefacts = Artefacts(path.with_name(path.name + ".artefacts"))
        self._engine = engine

    def events_path(self, run_id: str) -> Path:
        """Return the event file of a run; it may not exist yet."""
        return self.path.with_name(self.path.name + ".events") / f"{run_id}.jsonl"

    def report_path(self, run_id: str) -> Path:
        """Return the default path of a run's HTML report; it may not exist yet."""
        return self.path.parent / "reports" / f"{run_id}.html"

    def find_run(self, wanted: str, *, trusted: bool = False) -> RunRecord:
        """Return the run whose id starts with ``wanted``, or the newest local one for ``latest``.

        A beginning stands for a local run, where one has it. Where something depends on the run
        (``trusted``), raise UserError for an imported one, unless ``wanted`` is its whole id and
        not the beginning of a local one's.
        """
        with self._reading() as connection:
            known = connection.execute(
                select(runs.c.id, runs.c.name, runs.c.created_utc, runs.c.imported_utc).order_by(
                    *_NEWEST_FIRST
                )
            ).all()
            if not known:
                raise UserError(
                    f"{self.path}: holds no runs yet", hint="make one with `millrace run FILE`"
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
        """Return the run that an ablation tested; for a local ablation, only a local run."""
        tested = ablation.spec.tested
        if tested is None:
            return None
        found = self._runs_where(
            runs.c.id == tested.run,
            *((runs.c.imported_utc.is_(None),) if ablation.origin == "local" else ()),
        )
        return next(iter(found), None)

    def runs_of(
        self, digest: str, host_id: str, seed: int | None, *, imported: bool = False
    ) -> list[RunRecord]:
        """Return an experiment's runs on this host (or ``imported`` ones), the newest first."""
        return self._runs_where(
            runs.c.digest == digest,
            runs.c.host_id == host_id,
            runs.c.imported_utc.is_not(None) if imported else runs.c.imported_utc.is_(None),
            *(() if seed is None else (runs.c.seed == seed,)),
        )

    def imported(self, run_ids: Collection[str]) -> frozenset[str]:
        """Return those of the runs that came from a file: others wrote their experiments."""
        query = select(runs.c.id).where(runs.c.imported_utc.is_not(None))
        with self._reading() as connection:
            return frozenset(connection.scalars(query)) & frozenset(run_ids)

    def finished_trials(self, trial_ids: Collection[str]) -> frozenset[str]:
        """Return those of the trials that have finished here, not on another host."""
        query = (
            select(trials.c.id)
            .join(runs)
            .where(
                trials.c.id.in_(trial_ids), runs.c.imported_utc.is_(None), _has_attempt("finished")
            )
        )
        with self._reading() as connection:
            return frozenset(connection.scalars(query))

    def runs_of_workload(self, name: str, host_id: str) -> list[RunRecord]:
        """Return the runs of a workload that were measured on this host, the newest first."""
        return self._runs_where(
            runs.c.spec["workload", "name"].as_string() == name,
            runs.c.host_id == host_id,
            runs.c.imported_utc.is_(None),
        )

    def ablations_of(self, run_id: str) -> list[RunRecord]:
        """Return a run's ablations, the newest first; for a run measured here, only those here."""
        tested = runs.c.spec["tested", "run"].as_string()
        return self._runs_where(tested == run_id, importing.is_trusted_for(run_id))

    def calibrations_of(self, run: RunRecord) -> list[RunRecord]:
        """Return the calibrations of a run's host that may be evidence for it, the newest first."""
        calibrated = runs.c.spec["calibrates", "digest"].as_string()
        return self._runs_where(
            runs.c.host_id == run.host.id, calibrated.is_not(None), importing.is_trusted_for(run.id)
        )

    def _runs_where(self, *conditions: ColumnElement[bool]) -> list[RunRecord]:
        with self._reading() as connection:
            return rows.run_records(connection, and_(true(), *conditions), *_NEWEST_FIRST)

    def list_runs(self) -> list[RunSummary]:
        """Return every run in one line, the newest first."""

        def count(*conditions: Any) -> Any:
            counted = select(func.count()).select_from(trials)
            return counted.where(trials.c.run_id == runs.c.id, *conditions).scalar_subquery()

        finished = _has_attempt("finished")
        ended = _has_attempt("finished", "failed")
        query = select(
            *(runs.c[name] for name in _OF_A_SUMMARY),
            case((runs.c.imported_utc.is_(None), "local"), else_="imported").label("origin"),
            count(finished).label("finished"),
            count(ended, ~finished).label("failed"),
            count(~ended).label("open"),
        ).order_by(*_NEWEST_FIRST)
        with self._reading() as connection:
            return [checked.record(RunSummary, **row._mapping) for row in connection.execute(query)]

    def load_run(
        self, run_id: str, *, observations_too: bool = False, from_block: int = 0
    ) -> StoredRun:
        """Return the run with exactly this id, or its part ``from_block``; UserError for none.

        Observations are a hundred times as large as everything else. Raises HostError when a file
        that it reads is missing or was changed.
        """
        with self._reading() as connection:
            self._require(connection, [run_id])
            stored = rows.stored_run(connection, run_id, from_block)
        return read_back(stored, self.artefacts, observations_too=observations_too)

    def readable_runs(self, runs: Iterable[RunRecord]) -> Iterator[StoredRun]:
        """Yield the stored runs of these but those that cannot be read, such as damaged ones."""
        for run in runs:
            try:
                stored = self.load_run(run.id)
            except MillraceError:
                continue
            yield stored

    def _require(self, connection: Connection, run_ids: Collection[str]) -> None:
        known = set(connection.scalars(select(runs.c.id)))
        for run_id in run_ids:
            if run_id not in known:
                raise UserError(
                    f"{self.path}: holds no run {run_id}", hint="see `millrace results list`"
                )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with database.user_errors(self.path), self._engine.begin() as connection:
            yield connection


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
    return UserError(message, hint="see `millrace results list`")


def _no_local_run(path: Path, known: Sequence[Any]) -> UserError:
    return UserError(
        f"{path}: holds no run that was measured here, only imported ones, and `{_NEWEST}` is "
        f"never one of these; the newest are:\n{_lines(known)}",
        hint="name one by its id",
    )


def _require_named(path: Path, wanted: str, found: Any, local: Sequence[Any]) -> None:
    """Raise UserError where a name is not clearly that of the imported run that it stands for."""
    if wanted != found.id:
        raise UserError(
            f"{path}: {wanted!r} stands for run {found.id}, which was imported: nothing in it was "
            "measured here",
            hint=f"name it by its whole id, {found.id}, if you trust whoever made the file",
        )
    if local:
        raise UserError(
            f"{path}: {wanted!r} is the id of an imported run, and the beginning of the ids of "
            f"runs measured here:\n{_lines(local)}",
            hint="give more characters of the id",
        )


def _lines(found: Sequence[Any]) -> str:
    """Return a line for each of the first few runs."""
    return "\n".join(
        f"  {row.id}  {row.name}  {row.created_utc}"
        + ("" if row.imported_utc is None else "  imported")
        for row in found[:8]
    )
