"""Identify a snapshot by everything that may affect the files of a data directory.

The key consists of the build (its name, version and the current digest of its program), the user it
runs as, millrace's version (which decides how a data directory is initialised), the options and the
data. All options count except the family's ``runtime_only`` options, which leave no trace in the
files of a server that was stopped cleanly. An unforeseen option thus makes another snapshot, which
only costs time; an option ignored by mistake would falsify a measurement.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch

from millrace import __version__, databases
from millrace.databases.base import Options
from millrace.model.documents import Document, Items, canonical
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers.provenance import sha256

FORMAT = 4  # snapshots of another format are never found, and are evicted like any other


class _Build(Document):
    name: str
    family: str
    version: str
    program_sha256: str
    artefacts: Items[str]


class KeyParts(Document):
    """Everything that may affect the files; ``options`` are (name, value) pairs."""

    format: int
    millrace: str
    server: _Build
    user: str
    options: Items[Items[str | None]]
    data: Mapping[str, object]


@dataclass(frozen=True)
class SnapshotKey:
    """The key of a snapshot; the manifest stores its ``parts``."""

    server: str
    parts: KeyParts

    @property
    def digest(self) -> str:
        return hashlib.sha256(canonical(self.parts.to_json()).encode()).hexdigest()

    @property
    def name(self) -> str:
        return f"{re.sub(r'[^A-Za-z0-9.-]', '_', self.server)}-{self.digest[:12]}"


def key(
    server: InstalledServer, options: FittedOptions, data: Mapping[str, object], *, user: str
) -> SnapshotKey:
    """Return the key of a directory that ``server`` creates as ``user`` with ``data`` (JSON)."""
    parts = KeyParts(
        format=FORMAT,
        millrace=__version__,
        server=_Build(
            name=server.name,
            family=server.family,
            version=server.version,
            program_sha256=sha256(server.program),
            artefacts=tuple(artefact.sha256 for artefact in server.provenance.artefacts),
        ),
        user=user,
        options=_counting(options.applied, databases.get(server.family).options),
        data=json.loads(json.dumps(data)),
    )
    return SnapshotKey(server.name, parts)


def _counting(applied: Iterable[Option], options: Options) -> tuple[tuple[str, str | None], ...]:
    """Return names and values of the options that count; the last option of a name wins."""
    counting = {
        options.forms(option.name)[0]: option.value
        for option in applied
        if not any(fnmatch(f, t) for f in options.forms(option.name) for t in options.runtime_only)
    }
    return tuple(sorted(counting.items()))
