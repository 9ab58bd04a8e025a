"""One portable file of runs: ``millrace results export`` writes it, another machine imports it.

A zip archive, the same bytes for the same runs:

    manifest.json        {"format": "millrace.results", "version": 3,
                          "runs": [{"id", "file", "sha256"}],
                          "artefacts": [{"sha256", "size_bytes"}],
                          "history": {"file", "sha256"} or null}
    runs/0001.json       a StoredRun (millrace.store.records) as JSON, without its histograms,
                         series and observations
    artefacts/<sha256>   a file the runs refer to (histograms, series and observations are
                         such files)
    history.json         a HistoryPart (millrace.store.history_records): the runs' points, if any

Any change of the records makes a new version; older versions are read, newer ones are refused.
Nothing is ever unpacked under a name from the archive: files are kept under the hash of what they
hold. An archive is checked completely before the first row of it is written.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from millrace.errors import UserError
from millrace.store import histograms, observations, series
from millrace.store.artefacts import Artefacts, written_atomically
from millrace.store.history_records import HistoryPart
from millrace.store.records import StoredRun

FORMAT = "millrace.results"
VERSION = 3

_MANIFEST = "manifest.json"
_HISTORY = "history.json"
_RUN_ID = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]{0,127}")  # it names the run's event file
_RUN_LIMIT_BYTES = 1 << 30  # far above any real run; an archive may claim anything
_EPOCH = (1980, 1, 1, 0, 0, 0)
_RUN = TypeAdapter(StoredRun)
_PART = TypeAdapter(HistoryPart)
_IN_FILES = {"histograms", "observations", "series"}


@dataclass(frozen=True)
class Imported:
    """Ids of the runs that were added, and of those that were there already."""

    added: tuple[str, ...]
    present: tuple[str, ...]


@dataclass(frozen=True)
class _ArtefactEntry:
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class _RunEntry:
    id: str
    file: str
    sha256: str


@dataclass(frozen=True)
class _HistoryEntry:
    file: str
    sha256: str


@dataclass(frozen=True)
class _Manifest:
    format: str
    version: int
    runs: tuple[_RunEntry, ...]
    artefacts: tuple[_ArtefactEntry, ...]
    history: _HistoryEntry | None = None


_READ_MANIFEST = TypeAdapter(_Manifest)


def write(
    path: Path,
    runs: Sequence[StoredRun],
    artefacts: Artefacts,
    history: HistoryPart,
    *,
    replace: bool = False,
) -> None:
    """Write ``runs`` with their files and their points of histories to ``path``, which appears
    complete or not at all.

    Raises UserError for a file that is there already, unless it is to be replaced (``replace``).
    """
    if not replace and os.path.lexists(path):
        raise UserError(
            f"{path}: is there already; nothing was exported",
            remedy="name another file with --output, or replace it with --force",
        )
    sizes = _artefact_sizes(runs)
    with (
        written_atomically(path, option="--output") as draft,
        zipfile.ZipFile(draft, "w") as archive,
    ):
        entries = []
        for number, run in enumerate(runs, start=1):
            content = _RUN.dump_json(run, exclude={"attempts": {"__all__": _IN_FILES}})
            name = f"runs/{number:04}.json"
            _add(archive, name, content)
            entries.append(
                {"id": run.run.id, "file": name, "sha256": hashlib.sha256(content).hexdigest()}
            )
        for sha256 in sizes:
            _add(archive, f"artefacts/{sha256}", artefacts.read(sha256))
        held = None
        if history.points:
            content = _PART.dump_json(history)
            _add(archive, _HISTORY, content)
            held = {"file": _HISTORY, "sha256": hashlib.sha256(content).hexdigest()}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "runs": entries,
            "artefacts": [{"sha256": name, "size_bytes": size} for name, size in sizes.items()],
            "history": held,
        }
        _add(archive, _MANIFEST, json.dumps(manifest, indent=1).encode())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content, compress_type=zipfile.ZIP_DEFLATED)


def _artefact_sizes(runs: Sequence[StoredRun]) -> dict[str, int]:
    found = {
        artefact.sha256: artefact.size_bytes
        for run in runs
        for attempt in run.attempts
        for artefact in attempt.artefacts
    }
    return dict(sorted(found.items()))


_PARSERS: Mapping[str, Callable[[bytes], object]] = {
    histograms.KIND: histograms.parse,
    observations.KIND: observations.parse,
    series.KIND: series.parse,
}


def _kinds(runs: Sequence[StoredRun]) -> dict[str, str]:
    """The kinds of those files, by their hash, that are read with a run."""
    return {
        artefact.sha256: artefact.kind
        for run in runs
        for attempt in run.attempts
        for artefact in attempt.artefacts
        if artefact.kind in _PARSERS
    }


def _check_content(path: Path, sha256: str, kind: str, content: bytes) -> None:
    try:
        _PARSERS[kind](content)
    except ValueError as error:
        raise _wrong(path, f"artefacts/{sha256} holds no {kind} ({error})") from error


class Bundle:
    """A checked archive: its runs and their points of histories, and its files on demand."""

    def __init__(
        self,
        path: Path,
        archive: zipfile.ZipFile,
        runs: tuple[StoredRun, ...],
        history: HistoryPart,
    ) -> None:
        self.runs = runs
        self.history = history
        self._path = path
        self._archive = archive

    def artefacts_of(self, runs: Sequence[StoredRun]) -> Iterator[bytes]:
        """The content of each file ``runs`` refer to, once."""
        for sha256, size_bytes in _artefact_sizes(runs).items():
            yield _artefact(self._path, self._archive, sha256, size_bytes)


@contextmanager
def reading(path: Path) -> Iterator[Bundle]:
    """Open and check an archive; UserError says what is wrong with it."""
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(
            f"{path}: is a directory, not a results file of millrace",
            remedy="name a file that `millrace results export` wrote",
        ) from None
    except PermissionError:
        raise UserError(
            f"{path}: may not be read by you", remedy="make the file readable for you"
        ) from None
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise _wrong(
            path, f"is not a results file of millrace, or is cut short ({error})"
        ) from error
    with archive:
        manifest = _manifest(path, archive)
        _check_names(path, archive, manifest)
        runs = tuple(_run(path, archive, entry) for entry in manifest.runs)
        _check_ids(path, runs)
        held = {entry.sha256: entry.size_bytes for entry in manifest.artefacts}
        for sha256, size_bytes in _artefact_sizes(runs).items():
            if held.get(sha256) != size_bytes:
                raise _wrong(path, f"lacks the file {sha256} that a run refers to")
        kinds = _kinds(runs)
        for entry in manifest.artefacts:
            content = _artefact(path, archive, entry.sha256, entry.size_bytes)
            if entry.sha256 in kinds:
                _check_content(path, entry.sha256, kinds[entry.sha256], content)
        yield Bundle(path, archive, runs, _history(path, archive, manifest, runs))


def _manifest(path: Path, archive: zipfile.ZipFile) -> _Manifest:
    try:
        raw = json.loads(_member(path, archive, _MANIFEST, _RUN_LIMIT_BYTES))
    except ValueError as error:
        raise _wrong(path, f"its {_MANIFEST} is not JSON ({error})") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise _wrong(path, "is not a results file of millrace")
    version = raw.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise UserError(
            f"{path}: is a results file of version {version}; this millrace reads up to {VERSION}",
            remedy="import it with the millrace that wrote it, or a newer one",
        )
    try:
        return _READ_MANIFEST.validate_python(raw)
    except ValidationError as error:
        raise _wrong(path, f"its {_MANIFEST} is wrong: {_first(error)}") from error


def _check_names(path: Path, archive: zipfile.ZipFile, manifest: _Manifest) -> None:
    expected = Counter(
        [
            _MANIFEST,
            *(entry.file for entry in manifest.runs),
            *(f"artefacts/{entry.sha256}" for entry in manifest.artefacts),
            *([manifest.history.file] if manifest.history else []),
        ]
    )
    found = Counter(archive.namelist())
    if found != expected:
        names = ", ".join(sorted(((found - expected) + (expected - found)).keys())[:3])
        raise _wrong(path, f"holds other files than its {_MANIFEST} names: {names}")


def _run(path: Path, archive: zipfile.ZipFile, entry: _RunEntry) -> StoredRun:
    content = _member(path, archive, entry.file, _RUN_LIMIT_BYTES)
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise _wrong(path, f"{entry.file} was changed: its SHA-256 is not the one in {_MANIFEST}")
    try:
        run = _RUN.validate_json(content)
    except ValidationError as error:
        raise _wrong(path, f"{entry.file} is wrong: {_first(error)}") from error
    if run.run.id != entry.id or not _RUN_ID.fullmatch(run.run.id):
        raise _wrong(path, f"{entry.file} holds a run with an unusable id {run.run.id!r}")
    return run


def _check_ids(path: Path, runs: Sequence[StoredRun]) -> None:
    """Every reference leads somewhere, no id is there twice, and the ledger's promises hold."""
    for problem in (
        *_duplicates("run", [stored.run.id for stored in runs]),
        *_duplicates("trial", [trial.id for stored in runs for trial in stored.trials]),
    ):
        raise _wrong(path, problem)
    for stored in runs:
        for problem in _contradictions(stored):
            raise _wrong(path, f"run {stored.run.id}: {problem}")


def _contradictions(stored: StoredRun) -> Iterator[str]:
    treatments = [treatment.id for treatment in stored.treatments]
    trials = [trial.id for trial in stored.trials]
    yield from _duplicates("treatment", treatments)
    for trial in stored.trials:
        if trial.treatment_id not in treatments:
            yield f"trial {trial.id} is of an unknown treatment {trial.treatment_id}"
    for attempt in stored.attempts:
        if attempt.trial_id not in trials:
            yield f"an attempt is of an unknown trial {attempt.trial_id}"
        yield from _duplicates("step", [step.position for step in attempt.steps])
        yield from _duplicates("role", [instance.role for instance in attempt.instances])
        yield from _duplicates("measurement", [(m.role, m.name) for m in attempt.measurements])
    yield from _duplicates("attempt", [(a.trial_id, a.number) for a in stored.attempts])
    for outcome in ("finished", None):
        ended = [a.trial_id for a in stored.attempts if a.outcome == outcome]
        yield from _duplicates(f"{outcome or 'open'} attempt of trial", ended)


def _duplicates(kind: str, ids: Sequence[Any]) -> Iterator[str]:
    for name, count in Counter(ids).items():
        if count > 1:
            yield f"{kind} {name} is there {count} times"


def _history(
    path: Path, archive: zipfile.ZipFile, manifest: _Manifest, runs: Sequence[StoredRun]
) -> HistoryPart:
    entry = manifest.history
    if entry is None:
        return HistoryPart()
    content = _member(path, archive, entry.file, _RUN_LIMIT_BYTES)
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise _wrong(path, f"{entry.file} was changed: its SHA-256 is not the one in {_MANIFEST}")
    try:
        part = _PART.validate_json(content)
    except ValidationError as error:
        raise _wrong(path, f"{entry.file} is wrong: {_first(error)}") from error
    for problem in _contradictions_of(part, {stored.run.id for stored in runs}):
        raise _wrong(path, f"{entry.file}: {problem}")
    return part


def _contradictions_of(part: HistoryPart, runs: Collection[str]) -> Iterator[str]:
    series, states = {each.id for each in part.series}, {each.id for each in part.states}
    places = [(of, point.label) for of, point in part.points]
    yield from _duplicates("series", [each.id for each in part.series])
    yield from _duplicates("state", [each.id for each in part.states])
    yield from _duplicates("point", places)
    yield from _duplicates("point", [(of, p.run_id, p.place) for of, p in part.points])
    yield from _duplicates("change", [change.id for change in part.changes])
    for of, point in part.points:
        if of not in series or point.state not in states or point.run_id not in runs:
            yield f"point {point.label} is of an unknown series, state or run"
        if not (math.isfinite(point.ratio) and point.ratio > 0):
            yield f"point {point.label} has the ratio {point.ratio}"
    of_points = set(places)
    for change in part.changes:
        if (change.series, change.label) not in of_points:
            yield f"change {change.id} is of an unknown point"


def _artefact(path: Path, archive: zipfile.ZipFile, sha256: str, size_bytes: int) -> bytes:
    content = _member(path, archive, f"artefacts/{sha256}", size_bytes)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise _wrong(path, f"artefacts/{sha256} was changed: its name is not its SHA-256")
    return content


def _member(path: Path, archive: zipfile.ZipFile, name: str, limit_bytes: int) -> bytes:
    """One member's bytes, never more than ``limit_bytes`` of them whatever the archive claims."""
    try:
        with archive.open(name) as member:
            content = member.read(limit_bytes + 1)
    except KeyError:
        raise _wrong(path, f"holds no {name}") from None
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise _wrong(path, f"{name} is damaged ({error})") from error
    if len(content) > limit_bytes:
        raise _wrong(path, f"{name} is larger than it should be")
    return content


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _wrong(path: Path, problem: str) -> UserError:
    return UserError(
        f"{path}: {problem}; nothing was imported",
        remedy="export the runs again, and compare the file's size after copying it",
    )
