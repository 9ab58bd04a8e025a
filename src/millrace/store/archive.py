"""Write archives of runs, and read archives that may come from another user.

``millrace results export`` writes an archive, ``millrace results import`` reads it, usually on
another host. It is a zip file; the same runs give the same bytes:

    manifest.json        {"format": "millrace.results", "version": 1,
                          "runs": [{"id", "file", "sha256"}],
                          "artefacts": [{"sha256", "size_bytes"}],
                          "history": {"file", "sha256"} or null}
    runs/0001.json       a StoredRun (millrace.store.records) as JSON, without its histograms,
                         series and observations
    artefacts/<sha256>   a file that a run refers to: histograms, a series, observations, ...
    history.json         a HistoryPart (millrace.store.history_records): the runs' points, if any

An archive does not contain the origin of runs and points: the importing store sets ``imported``.

Each change of the record format increases the version, and only the current version is read. Files
are stored under the hash of their content, never under a name from the archive. The whole archive
is checked before the first row is written. An import reads one run at a time to save memory, and
reads each new run a second time to write it.
"""

import hashlib
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from millrace import safe_json, zip_directory
from millrace.errors import HostError, UserError
from millrace.model.documents import Whole, exact
from millrace.output_files import ARCHIVE, refuse_replacing
from millrace.store import checked
from millrace.store.artefacts import SHA256, Artefacts, Staged, written_atomically
from millrace.store.attempt_files import CHECKS
from millrace.store.checked import OF_A_FILE, NotARecord
from millrace.store.history_records import HistoryPart
from millrace.store.records import RunRecord, StoredRun

_FORMAT = "millrace.results"
_VERSION = 1

_MANIFEST = "manifest.json"
_HISTORY = "history.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class _ArtefactEntry:
    sha256: str
    size_bytes: Whole


@dataclass(frozen=True)
class RunEntry:
    """A run of an archive: its id, and the member that contains it."""

    id: str
    file: str
    sha256: str


@dataclass(frozen=True)
class _HistoryEntry:
    file: str
    sha256: str


@exact
@dataclass(frozen=True)
class _Manifest:
    format: str
    version: int
    runs: tuple[RunEntry, ...]
    artefacts: tuple[_ArtefactEntry, ...]
    history: _HistoryEntry | None


def write(
    path: Path,
    runs: Sequence[StoredRun],
    artefacts: Artefacts,
    history: HistoryPart,
    *,
    replace: bool = False,
) -> None:
    """Write runs, files and histories to an archive, atomically.

    Raise UserError if ``path`` exists, unless ``replace`` is set and the file is an archive of
    millrace. Raise UserError if the path contains a symbolic link of another user.
    """
    target = refuse_replacing(path, ARCHIVE, "--output", force=replace)
    artefacts_of_runs = {a.sha256: a for run in runs for of in run.attempts for a in of.artefacts}
    sizes = {sha256: a.size_bytes for sha256, a in sorted(artefacts_of_runs.items())}
    with (
        written_atomically(target, option="--output", resolved=True) as draft,
        zipfile.ZipFile(draft, "w") as archive,
    ):
        entries = []
        for number, run in enumerate(runs, start=1):
            content = checked.adapter(StoredRun).dump_json(
                run,
                exclude={"run": {"origin"}, "attempts": {"__all__": set(CHECKS)}},
                exclude_unset=True,
            )
            name = f"runs/{number:04}.json"
            entries.append(RunEntry(run.run.id, name, _add(archive, name, content)))
        for sha256 in sizes:
            _add(archive, f"artefacts/{sha256}", artefacts.read(sha256))
        held = None
        if history.points:
            content = checked.adapter(HistoryPart).dump_json(history)
            held = _HistoryEntry(_HISTORY, _add(archive, _HISTORY, content))
        files = tuple(_ArtefactEntry(sha256, size) for sha256, size in sizes.items())
        manifest = _Manifest(_FORMAT, _VERSION, tuple(entries), files, held)
        _add(archive, _MANIFEST, checked.adapter(_Manifest).dump_json(manifest, indent=1))


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> str:
    """Add a member to an archive; return its SHA-256."""
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content, compress_type=zipfile.ZIP_DEFLATED)
    return hashlib.sha256(content).hexdigest()


LARGEST_BYTES = 4 << 30
LARGEST_UNPACKED_BYTES = 16 << 30
MOST_MEMBERS = 100_000
MOST_TIMES = 200
"""The largest ratio of unpacked to packed size, not counting ``_ANY_UNPACKED_BYTES``.

Results have a ratio of 10 to 50, a zip bomb has about 1,000.
"""

_ANY_UNPACKED_BYTES = 64 << 20
_LARGEST_DIRECTORY_BYTES = 32 << 20
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Archive:
    """An open archive; reading a damaged, too large or missing member raises UserError."""

    path: Path
    zip: zipfile.ZipFile

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return a member's bytes; raise UserError if it has more than ``limit_bytes``."""
        return b"".join(self._pieces(name, limit_bytes))

    def copy(self, name: str, size_bytes: int, into: BinaryIO) -> str:
        """Write a member of ``size_bytes`` to a file; return its SHA-256."""
        digest = hashlib.sha256()
        for piece in self._pieces(name, size_bytes):
            digest.update(piece)
            into.write(piece)
        return digest.hexdigest()

    def _pieces(self, name: str, limit_bytes: int) -> Iterator[bytes]:
        left = limit_bytes
        try:
            with self.zip.open(name) as member:
                while piece := member.read(min(_PIECE_BYTES, left + 1)):
                    left -= len(piece)
                    if left < 0:
                        break
                    yield piece
        except KeyError:
            raise wrong(self.path, f"has no {name}") from None
        except _UNREADABLE as error:
            raise wrong(self.path, f"{name} is damaged ({error})") from error
        if left < 0:
            raise wrong(self.path, f"{name} is larger than it should be")


_UNREADABLE = (EOFError, OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error)


def wrong(path: Path, problem: str) -> UserError:
    """Return the error for an archive that cannot be imported."""
    return UserError(
        f"{path}: {problem}; nothing was imported",
        hint="export the runs again, and compare the file's checksum after copying it",
    )


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open an archive; raise UserError if the file is not an archive or exceeds a limit."""
    with _file(path) as file:
        try:
            _check_directory(path, file)
            archive = zipfile.ZipFile(file)
        except (OSError, *_UNREADABLE, NotImplementedError, struct.error) as error:
            raise wrong(
                path, f"is not a results file of millrace, or is truncated ({error})"
            ) from error
        with archive:
            _check_members(path, archive, os.fstat(file.fileno()).st_size)
            yield Archive(path, archive)


@contextmanager
def _file(path: Path) -> Iterator[BinaryIO]:
    try:
        # O_NONBLOCK: opening a pipe does not wait for its writer.
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file", hint="check the path") from None
    except IsADirectoryError:
        raise _no_file(path, "is a directory") from None
    except PermissionError:
        raise UserError(
            f"{path}: permission denied", hint="give your user permission to read the file"
        ) from None
    except (OSError, ValueError) as error:
        raise wrong(path, f"cannot be read ({error})") from error
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _no_file(path, "is not a regular file")
        if status.st_size > LARGEST_BYTES:
            raise wrong(path, f"is larger than {LARGEST_BYTES:,} bytes")
        yield file


def _no_file(path: Path, problem: str) -> UserError:
    return UserError(
        f"{path}: {problem}, not a results file of millrace",
        hint="name a file that `millrace results export` wrote",
    )


def _check_directory(path: Path, file: BinaryIO) -> None:
    end = zip_directory.read_end(file)
    if end.has_comment:
        raise zipfile.BadZipFile("data after the end of the zip file")
    if end.size_bytes > _LARGEST_DIRECTORY_BYTES or end.members > max(MOST_MEMBERS, 0xFFFF):
        raise wrong(path, f"contains more than {MOST_MEMBERS:,} files")


def _check_members(path: Path, archive: zipfile.ZipFile, size_bytes: int) -> None:
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise wrong(path, f"contains more than {MOST_MEMBERS:,} files")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise wrong(path, f"{member.filename} is compressed by a method that exports never use")
    unpacked = sum(member.file_size for member in members)
    if unpacked > LARGEST_UNPACKED_BYTES:
        raise wrong(path, f"unpacks to more than {LARGEST_UNPACKED_BYTES:,} bytes")
    if unpacked > _ANY_UNPACKED_BYTES + MOST_TIMES * size_bytes:
        raise wrong(
            path, f"unpacks to {unpacked:,} bytes, more than {MOST_TIMES} times its packed size"
        )


# A run's id is a part of file names (events, report, and longer names of drafts) and of commands
# that reports and hints recommend, so it has no character that a shell interprets.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST_RUN_ID = 200
_NO_RUN_ID = "latest"  # in commands: the newest run measured here
_CLOCKS_DIFFER = timedelta(days=1)  # the most, between the measuring host and this one

# Far above any real run: one of 1,000 trials has 40 MB and 2 million values.
_OF_A_RUN = safe_json.Limits(size_bytes=128 << 20, values=8_000_000, depth=64, text_chars=8 << 20)
_OF_THE_MANIFEST = safe_json.Limits(size_bytes=64 << 20, values=1_000_000)


class RunArchive:
    """An archive with checked runs and histories; ``stage`` checks its files."""

    def __init__(self, archive: Archive, manifest: _Manifest) -> None:
        """Read and check all runs and histories; raise UserError if they contradict each other."""
        self._archive = archive
        self._artefacts = manifest.artefacts
        self._kinds: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self.runs = manifest.runs
        self.trials: dict[str, str] = {}
        for entry in manifest.runs:
            self._meet(self.run(entry))
        held = {entry.sha256: entry.size_bytes for entry in manifest.artefacts}
        for sha256, size_bytes in self._sizes.items():
            if held.get(sha256) != size_bytes:
                raise wrong(
                    archive.path,
                    f"a run refers to file {sha256}, which is missing or has another size",
                )
        self.history = _history(archive, manifest)

    def run(self, entry: RunEntry) -> StoredRun:
        """Return a run of the archive; raise UserError if it is invalid."""
        path = self._archive.path
        content = _document(self._archive, entry.file, entry.sha256)
        try:
            run = checked.from_json(StoredRun, content)
            if run.run.id != entry.id:
                raise wrong(
                    path, f"{entry.file} has run {run.run.id!r}, not {entry.id!r} of {_MANIFEST}"
                )
            _refuse_unusable_id(path, entry)
            checked.valid_run(run.run)
            _refuse_future(run.run)
            checked.require_consistent_run(run)
        except NotARecord as error:
            raise wrong(path, f"{entry.file} is invalid: {error}") from error
        return run

    def stage(self, staged: Staged) -> None:
        """Write the archive's files to a staging area.

        Raise UserError for an invalid file, HostError if the disk is too small.
        """
        path = self._archive.path
        free_bytes = shutil.disk_usage(staged.directory).free
        # Reading stops at a member's claimed size, so the sum of these sizes is the upper bound.
        needed_bytes = sum(member.file_size for member in self._archive.zip.infolist())
        if needed_bytes > free_bytes:
            raise HostError(
                f"{path}: needs {needed_bytes:,} bytes unpacked, but only {free_bytes:,} are free "
                f"on the file system of {staged.directory.parent}; nothing was imported",
                hint="free some space and repeat the command",
            )
        for entry in self._artefacts:
            name = f"artefacts/{entry.sha256}"
            with staged.writing(entry.sha256) as file:
                found = self._archive.copy(name, entry.size_bytes, file)
            if found != entry.sha256:
                raise wrong(path, f"{name} was changed: its SHA-256 differs from its name")
            kind = self._kinds.get(entry.sha256)
            if kind is not None:
                try:
                    with staged.path(entry.sha256).open("rb") as content:
                        CHECKS[kind](safe_json.read_bounded(content, OF_A_FILE.size_bytes))
                except ValueError as error:
                    raise wrong(path, f"{name} is not a valid {kind} file ({error})") from error

    def _meet(self, stored: StoredRun) -> None:
        for trial in stored.trials:
            if trial.id in self.trials:
                raise wrong(self._archive.path, f"trial {trial.id} occurs 2 times")
            self.trials[trial.id] = stored.run.id
        for artefact in (each for attempt in stored.attempts for each in attempt.artefacts):
            sha256, size_bytes, kind = artefact.sha256, artefact.size_bytes, artefact.kind
            if self._sizes.setdefault(sha256, size_bytes) != size_bytes:
                raise wrong(self._archive.path, f"the file {sha256} has several sizes")
            if kind in CHECKS and self._kinds.setdefault(sha256, kind) != kind:
                raise wrong(self._archive.path, f"the file {sha256} has several kinds")


@contextmanager
def reading(path: Path) -> Iterator[RunArchive]:
    """Open an archive and check its runs and histories; raise UserError for an invalid one."""
    with opened(path) as archive:
        manifest = _manifest(archive)
        _check_names(archive, manifest)
        for problem in checked.duplicates("run", [entry.id for entry in manifest.runs]):
            raise wrong(path, problem)
        yield RunArchive(archive, manifest)


def _manifest(archive: Archive) -> _Manifest:
    path = archive.path
    content = archive.read(_MANIFEST, _OF_THE_MANIFEST.size_bytes)
    try:
        raw = safe_json.parse(content, _OF_THE_MANIFEST)
    except ValueError as error:
        raise wrong(path, f"its {_MANIFEST} is not JSON ({error})") from error
    if not isinstance(raw, dict) or raw.get("format") != _FORMAT:
        raise wrong(path, "is not a results file of millrace")
    if (version := raw.get("version")) != _VERSION:
        raise UserError(
            f"{path}: has format version {version}; this millrace reads only version {_VERSION}",
            hint="import it with the millrace version that wrote it",
        )
    try:
        manifest = checked.from_json(_Manifest, content)
    except NotARecord as error:
        raise wrong(path, f"its {_MANIFEST} is invalid: {error}") from error
    for entry in manifest.artefacts:
        if not SHA256.fullmatch(entry.sha256):
            raise wrong(path, f"its {_MANIFEST} is invalid: {entry.sha256!r} is not a SHA-256")
    return manifest


def _check_names(archive: Archive, manifest: _Manifest) -> None:
    expected = Counter(
        [
            _MANIFEST,
            *(entry.file for entry in manifest.runs),
            *(f"artefacts/{entry.sha256}" for entry in manifest.artefacts),
            *([manifest.history.file] if manifest.history else []),
        ]
    )
    found = Counter(archive.zip.namelist())  # these names are never used as paths
    if found != expected:
        names = ", ".join(sorted(((found - expected) + (expected - found)).keys())[:3])
        raise wrong(archive.path, f"its files differ from those listed in its {_MANIFEST}: {names}")


def _refuse_future(run: RunRecord) -> None:
    """Raise NotARecord for a run dated in the future: it would stay first in lists for long."""
    if datetime.fromisoformat(run.created_utc) > datetime.now(UTC) + _CLOCKS_DIFFER:
        raise NotARecord(f"run {run.id}: created_utc is in the future: {run.created_utc}")


def _refuse_unusable_id(path: Path, entry: RunEntry) -> None:
    is_name = _RUN_ID.fullmatch(entry.id) is not None and entry.id != _NO_RUN_ID
    if is_name and len(entry.id) <= _LONGEST_RUN_ID:
        return
    raise UserError(
        f"{path}: {entry.file}: run.id: unusable id {entry.id[:80]!r}; expected at most "
        f"{_LONGEST_RUN_ID} of A-Z a-z 0-9 . _ -, the first a letter or digit, and not "
        f"{_NO_RUN_ID!r}; nothing was imported",
        hint="`millrace results export` does not write this id, so the file was changed: ask its "
        "author for the original",
    )


def _document(archive: Archive, name: str, sha256: str) -> bytes:
    content = archive.read(name, _OF_A_RUN.size_bytes)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise wrong(
            archive.path, f"{name} was changed: its SHA-256 differs from the one in {_MANIFEST}"
        )
    try:
        safe_json.parse(content, _OF_A_RUN)
    except ValueError as error:
        raise wrong(archive.path, f"{name} is invalid: {error}") from error
    return content


def _history(archive: Archive, manifest: _Manifest) -> HistoryPart:
    entry = manifest.history
    if entry is None:
        return HistoryPart()
    content = _document(archive, entry.file, entry.sha256)
    try:
        part = checked.from_json(HistoryPart, content)
        checked.require_consistent_part(part, {entry.id for entry in manifest.runs})
    except NotARecord as error:
        raise wrong(archive.path, f"{entry.file} is invalid: {error}") from error
    return part
