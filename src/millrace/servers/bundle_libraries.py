"""Find every shared library that a program needs, and bundle those that the host may lack.

millrace searches the vendor's own libraries first, then the packages that were fetched for the
server. Otherwise the server uses the host's library. The C library and its companions work only
with their own loader, so they are bundled together with it, and only if they are newer than the
host's.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from millrace.host import elf
from millrace.model.servers import Artefact

_LOADER = re.compile(r"ld-linux.*\.so\.\d+|ld64\.so\.\d+")
_C_LIBRARY = re.compile(
    r"(ld-linux.*|ld64|lib(c|m|mvec|pthread|dl|rt|util|resolv|anl|nss_\w+|thread_db))\.so\.\d+"
)
_BUNDLE_DIRS = ("", "bin", "lib", "lib64", "libs", "lib/private", "library_output_directory")
_PLUGINS = ("lib*/plugin/*.so", "lib*/*/plugin/*.so", "plugin_output_directory/*.so")
_GLIBC_VERSION = re.compile(rb"GNU C Library [^\n]*?version (\d+)\.(\d+)")


@dataclass(frozen=True)
class Fetched:
    """A package that was fetched for its libraries, and the directory it was unpacked to."""

    artefact: Artefact
    directory: Path


@dataclass(frozen=True)
class BundledLibraries:
    """The libraries of a server."""

    loader: str | None  # its name; None where the host's is used
    bundled_dirs: tuple[Path, ...]  # the vendor's own that are needed
    artefacts: tuple[Artefact, ...]  # packages that supplied a library


def bundle(
    program: Path, base_dir: Path, fetched: Iterable[Fetched], into: Path
) -> BundledLibraries:
    """Copy what ``program`` and the plugins of ``base_dir`` need from ``fetched`` into ``into``."""
    fetched = list(fetched)
    supplied = {name: path for each in fetched for name, path in _supplied(each.directory).items()}
    own_libc = _newer_than_host(supplied.get("libc.so.6"))
    if not own_libc:
        supplied = {k: path for k, path in supplied.items() if not _C_LIBRARY.fullmatch(k)}
    bundled = _bundled(base_dir)
    known = {**supplied, **bundled}
    needed_by_program = needed_libraries([program], known.get)
    needed = needed_by_program | needed_libraries(plugins(base_dir), known.get)
    wanted = {k: path for k, path in supplied.items() if k in needed and k not in bundled}
    if own_libc:
        wanted |= {k: path for k, path in supplied.items() if _C_LIBRARY.fullmatch(k)}
    into.mkdir(mode=0o755, exist_ok=True)
    for name, path in wanted.items():
        shutil.copyfile(path, into / name)
        (into / name).chmod(0o755)
    return BundledLibraries(
        loader=next(filter(_LOADER.fullmatch, wanted), None),
        bundled_dirs=tuple(sorted({bundled[k].parent for k in needed_by_program if k in bundled})),
        artefacts=tuple(
            each.artefact
            for each in fetched
            if any(path.is_relative_to(each.directory) for path in wanted.values())
        ),
    )


def lacking(program: Path, base_dir: Path, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that the server needs and the vendor did not bundle."""
    bundled = _bundled(base_dir)
    needed = needed_libraries([program, *plugins(base_dir)], bundled.get)
    return [name for name in names if name in needed and name not in bundled]


def glibc_version(library: Path) -> tuple[int, int] | None:
    """Return the version that a libc.so.6 reports."""
    match = _GLIBC_VERSION.search(library.read_bytes())
    return (int(match[1]), int(match[2])) if match else None


def host_glibc_version() -> tuple[int, int] | None:
    """Return the version of the host's glibc; None if its C library is another one."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):
        return None
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) if name == "glibc" else None


def _newer_than_host(libc: Path | None) -> bool:
    if libc is None:
        return False
    version, host = glibc_version(libc), host_glibc_version()
    return version is not None and (host is None or version > host)


def _supplied(directory: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(directory.rglob("*.so*")) if path.is_file()}


def _bundled(base_dir: Path) -> dict[str, Path]:
    """Return the shared libraries that come with the server, by name."""
    places = (base_dir / place for place in _BUNDLE_DIRS)
    return {path.name: path for each in places for path in each.glob("*.so*") if path.is_file()}


def plugins(base_dir: Path) -> list[Path]:
    """Return the plugins that come with the server."""
    return [path for pattern in _PLUGINS for path in base_dir.glob(pattern) if path.is_file()]


def needed_libraries(
    programs: Iterable[Path], locate: Callable[[str], Path | None]
) -> frozenset[str]:
    """Return the libraries that programs need, directly or through libraries that are found."""
    names: set[str] = set()
    waiting = list(programs)
    while waiting:
        for name in elf.needed(waiting.pop()):
            if name not in names:
                names.add(name)
                if (path := locate(name)) is not None:
                    waiting.append(path)
    return frozenset(names)
