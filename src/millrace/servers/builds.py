"""Hash the files of a build, and compare them with the files that were installed.

The record of a trial must describe the build that ran. A server is therefore hashed again when a
command starts to use it: its program, its own loader and libraries, its plugins, and the SQL of its
system tables.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from elftools.common.exceptions import ELFError

from millrace.model.servers import InstalledServer, Provenance
from millrace.servers import bundle_libraries, provenance


def digests(server: InstalledServer) -> dict[str, str]:
    """Return the SHA-256 of each existing file of the build by path; read only changed files."""
    return {str(path): provenance.sha256(path) for path in _files(server) if path.is_file()}


def as_it_is(server: InstalledServer) -> InstalledServer:
    """Return the server with the digest of its current files, and the names of changed ones."""
    now = digests(server)
    program = str(server.program)
    # Older installations have no digests of files.
    known: Mapping[str, str | None] = server.files or {program: server.provenance.program_sha256}
    names = now.keys() | known.keys() if server.files else known.keys()
    changed = tuple(sorted(name for name in names if now.get(name) != known.get(name)))
    origin = replace(server.provenance, program_sha256=now.get(program))
    if changed:
        origin = _observed_anew(server, origin)
    return replace(server, provenance=origin, build_sha256=digest(now), changed=changed)


def digest(files: Mapping[str, str]) -> str:
    """Return a digest that identifies the build, wherever it is installed."""
    named = sorted((Path(path).name, sha256) for path, sha256 in files.items())
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _files(server: InstalledServer) -> Iterator[Path]:
    yield server.program
    yield Path(server.argv[0])  # its own loader, if it has one
    plugins = bundle_libraries.plugins(server.base_dir)
    yield from plugins
    # The first directory is millrace's own. A vendor's may be /usr/lib with all of its files.
    for directory in server.library_dirs[:1]:
        yield from directory.glob("*.so*")
    needed = provenance.reachable([server.program, *plugins], server.library_dirs)
    for directory in server.library_dirs[1:]:
        yield from (directory / name for name in sorted(needed))
    yield from server.share_dir.glob("*.sql")


def _observed_anew(server: InstalledServer, origin: Provenance) -> Provenance:
    own_loader = server.argv[0] != str(server.program)
    try:
        return provenance.observe(
            origin, server.program, server.library_dirs, own_loader=own_loader
        )
    except (ELFError, OSError):
        return Provenance(
            origin.source, origin.artefacts, program_sha256=origin.program_sha256, note=origin.note
        )
