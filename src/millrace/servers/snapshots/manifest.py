"""Read and write a snapshot: its manifest (``snapshot.json``) and its files (``data``).

The manifest contains the password of the server's accounts, so only its owner may read it.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from millrace import safe_json
from millrace.databases.table_checks import KeptTable
from millrace.errors import TrialFailed
from millrace.servers.snapshots import data_files
from millrace.servers.snapshots.key import FORMAT, KeyParts, SnapshotKey

FILE = "snapshot.json"
# Enough for 100,000 tables, and for any workload definition in the key.
_LIMITS = safe_json.Limits(size_bytes=64 << 20, values=2_000_000, text_chars=64 << 20)
DATA = "data"

# Enough for 100,000 tables: a server has two or three files per table, and a hundred of its own.
# Counting a million files takes some seconds.
MOST_FILES = 1_000_000
_MOST_LEVELS = 100


class NoDataDirectory(TrialFailed):
    """An error for a directory tree too large or too deep to be a server's data directory."""

    def __init__(self, data_dir: Path, holds: str) -> None:
        super().__init__(f"the data directory {data_dir} has {holds}")
        self.holds = holds


@dataclass(frozen=True)
class SnapshotFile:
    """A file of the data directory when it was saved; ``path`` is relative."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Snapshot:
    """A snapshot: a kept data directory with loaded tables."""

    key: SnapshotKey
    directory: Path
    password: str = field(repr=False)
    facts: Mapping[str, object]  # recorded by its creator
    made_s: float  # time to initialise and load
    made_utc: str
    bytes: int  # the sum of the file sizes
    allocated_bytes: int  # disk usage, without holes
    files: tuple[SnapshotFile, ...] = field(repr=False)
    digests: Mapping[str, str] = field(repr=False)  # of contents, by path
    tables: tuple[KeptTable, ...] = field(default=(), repr=False)  # as loaded

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def data_dir(self) -> Path:
        return self.directory / DATA

    def damage(self) -> str | None:
        """Return how its files differ from the saved ones; None if they do not.

        Compare names, sizes and modification times. ``content_damage`` finds other changes.
        """
        kept = {file.path: file for file in self.files}
        there = {file.path: file for file in list_files(self.data_dir)}
        for path in sorted(kept.keys() | there.keys()):
            if path not in there:
                return f"{path} is missing"
            if path not in kept:
                return f"{path} was added"
            if kept[path] != there[path]:
                return f"{path} was changed"
        return None

    def content_damage(self) -> str | None:
        """Read all files; return how they differ from the saved ones, or None. Raise OSError."""
        if self.digests.keys() != {file.path for file in self.files}:
            return "its manifest lacks digests"
        return data_files.damage(self.data_dir, self.digests)


_SNAPSHOT = TypeAdapter(Snapshot)


def list_files(data_dir: Path) -> tuple[SnapshotFile, ...]:
    """Return every file below a directory, sorted by path."""
    found = []
    for file, status in walk(data_dir):
        path = str(file.relative_to(data_dir))
        found.append(SnapshotFile(path, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found, key=lambda file: file.path))


def walk(data_dir: Path, *, most: int = MOST_FILES) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield every entry below a directory except directories, with its status.

    Symbolic links are not followed. Raise NoDataDirectory for more than ``most`` entries or for
    more levels than a server creates, because a server may have created anything there.
    """
    waiting = [(data_dir, 1)]
    found = 0
    while waiting:
        directory, level = waiting.pop()
        if level > _MOST_LEVELS:
            raise NoDataDirectory(data_dir, f"more than {_MOST_LEVELS} levels of directories")
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    found += 1
                    if found > most:
                        raise NoDataDirectory(data_dir, f"more than {most:,} files and directories")
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((Path(entry.path), level + 1))
                    else:
                        yield Path(entry.path), entry.stat(follow_symlinks=False)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise NoDataDirectory(data_dir, "names longer than the kernel's limit") from None


def usage(data_dir: Path) -> tuple[int, int]:
    """Return the apparent size and the disk usage of all files below a directory, in bytes."""
    states = [status for _, status in walk(data_dir) if stat.S_ISREG(status.st_mode)]
    return sum(s.st_size for s in states), sum(s.st_blocks * 512 for s in states)


def write(snapshot: Snapshot) -> None:
    """Write the manifest into the snapshot's directory, readable only by its owner."""
    key = {"server": snapshot.key.server, "key": snapshot.key.parts.to_json()}
    document = {"format": FORMAT, **asdict(snapshot), **key}
    del document["directory"]
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(snapshot.directory / FILE, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)


def read(directory: Path) -> Snapshot | None:
    """Return the snapshot in a directory; None if there is none that this version can read."""
    try:
        return _read(directory)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def defect(directory: Path) -> str | None:
    """Return why the manifest in a directory cannot be read back; None if it can."""
    try:
        return None if _read(directory) is not None else "it has another format"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return str(error)


def _read(directory: Path) -> Snapshot | None:
    document = safe_json.read(directory / FILE, _LIMITS)
    if document["format"] != FORMAT:
        return None
    key = SnapshotKey(document["server"], KeyParts.model_validate(document["key"]))
    return _SNAPSHOT.validate_python({**document, "key": key, "directory": directory})
