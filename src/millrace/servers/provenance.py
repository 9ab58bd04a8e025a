"""Read how a server program was built from the program and the libraries it would load."""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from millrace.host import elf
from millrace.host.elf import Elf
from millrace.model.servers import Provenance
from millrace.servers import bundle_libraries


def observe(
    provenance: Provenance, program: Path, library_dirs: Sequence[Path], *, own_loader: bool
) -> Provenance:
    """Return ``provenance`` with the facts in the program and its libraries."""
    build = elf.read(program)
    reached = reachable([program], library_dirs)
    return replace(
        provenance,
        program_sha256=file_sha256(program),
        build_id=build.build_id,
        compiler=_compiler(build),
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
    """Return the SHA-256 of a file as it is now, reading it only when it may have changed.

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
    """Return the names of the libraries needed, directly or through those in ``library_dirs``."""

    def locate(name: str) -> Path | None:
        return next((each / name for each in library_dirs if (each / name).is_file()), None)

    return bundle_libraries.needed_libraries(programs, locate)


def _compiler(build: Elf) -> str | None:
    return "; ".join(build.comment) or None  # several where libraries were linked in


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
