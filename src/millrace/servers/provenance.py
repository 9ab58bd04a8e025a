"""Read from a server's files how it was built, and compare the files with the installed ones.

The record of a trial must describe the build that ran. So the server's files are hashed again when
a command starts to use it: its program, its own loader and libraries, its plugins, and the SQL of
its system tables.
"""

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from elftools.common.exceptions import ELFError

from millrace.host import elf
from millrace.host.elf import Elf
from millrace.model.servers import InstalledServer, Provenance
from millrace.servers import bundle_libraries


def observe(
    provenance: Provenance, program: Path, library_dirs: Sequence[Path], *, own_loader: bool
) -> Provenance:
    """Return ``provenance`` with the facts found in the program and its libraries."""
    build = elf.read(program)
    reached = reachable([program], library_dirs)
    return replace(
        provenance,
        program_sha256=file_sha256(program),
        build_id=build.build_id,
        compiler="; ".join(build.comment) or None,  # several if static libraries were linked in
        allocator=_allocator(build, reached),
        libc=_libc(library_dirs, own_loader=own_loader),
        async_io=_async_io(build, reached),
        symbols=_symbols(build),
    )


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256(path: Path) -> str:
    """Return the current SHA-256 of a file; read the file only if it may have changed.

    A developer's build changes under the same name. A process can set the modification time to any
    value, but not the time of the last status change.
    """
    status = path.stat()
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _sha256(path, state)


@functools.cache
def _sha256(path: Path, _state: tuple[int, ...]) -> str:
    return file_sha256(path)


def reachable(programs: Sequence[Path], library_dirs: Sequence[Path]) -> frozenset[str]:
    """Return the names of the libraries needed, also indirectly through ``library_dirs``."""

    def locate(name: str) -> Path | None:
        return next((each / name for each in library_dirs if (each / name).is_file()), None)

    return bundle_libraries.needed_libraries(programs, locate)


def _allocator(build: Elf, reachable: frozenset[str]) -> str:
    for name in ("jemalloc", "tcmalloc", "mimalloc"):
        if any(library.startswith(f"lib{name}") for library in reachable):
            return name
    if build.has_symbol("mallctl") or build.has_symbol("je_mallctl"):
        return "jemalloc (linked in)"
    if build.has_symbol("MallocExtension_Initialize") or build.has_symbol("tc_malloc"):
        return "tcmalloc (linked in)"
    return "glibc"


def _libc(library_dirs: Sequence[Path], *, own_loader: bool) -> str | None:
    if own_loader:
        carried = next(
            (each / "libc.so.6" for each in library_dirs if (each / "libc.so.6").is_file()), None
        )
        version = bundle_libraries.glibc_version(carried) if carried is not None else None
        return "glibc {}.{} (its own)".format(*version) if version else None
    version = bundle_libraries.host_glibc_version()
    return "glibc {}.{} (the host's)".format(*version) if version else None


def _async_io(build: Elf, reachable: frozenset[str]) -> str:
    if any(name.startswith("liburing.") for name in reachable) or build.has_symbol(
        "io_uring_queue_init"
    ):
        return "io_uring"
    if any(name.startswith("libaio.") for name in reachable) or build.has_symbol("io_submit"):
        return "libaio"
    return "none"


def _symbols(build: Elf) -> str:
    if {".debug_info", ".zdebug_info"} & build.sections:
        return "DWARF"
    return "symbol table" if ".symtab" in build.sections else "dynsym"


def digests(server: InstalledServer) -> dict[str, str]:
    """Return the SHA-256 of each existing file of the build, by path."""
    return {str(path): sha256(path) for path in _files(server) if path.is_file()}


def as_it_is(server: InstalledServer) -> InstalledServer:
    """Return the server with the digest of its current files and the names of changed files."""
    now = digests(server)
    program = str(server.program)
    names = now.keys() | server.files.keys()
    changed = tuple(sorted(name for name in names if now.get(name) != server.files.get(name)))
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
    # The first directory is millrace's own. A vendor's directory may be /usr/lib itself.
    for directory in server.library_dirs[:1]:
        yield from directory.glob("*.so*")
    needed = reachable([server.program, *plugins], server.library_dirs)
    for directory in server.library_dirs[1:]:
        yield from (directory / name for name in sorted(needed))
    yield from server.share_dir.glob("*.sql")


def _observed_anew(server: InstalledServer, origin: Provenance) -> Provenance:
    own_loader = server.argv[0] != str(server.program)
    try:
        return observe(origin, server.program, server.library_dirs, own_loader=own_loader)
    except (ELFError, OSError):
        return Provenance(origin.source, origin.artefacts, program_sha256=origin.program_sha256)
