"""Assemble a server that can boot from downloaded files.

A finished server is a directory: ``tree/`` has the vendor's files, ``lib/`` the libraries that
millrace added, and ``server.json`` is the manifest. The directory is filled under a temporary name.
It is renamed when it is complete and the server program has reported its version, so every server
under its final name works.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from elftools.common.exceptions import ELFError

from millrace import databases
from millrace.databases.base import Build, Incomplete, Located
from millrace.errors import HostError, PermanentHostError, UserError
from millrace.model.events import Notice, OnEvent
from millrace.model.servers import InstalledServer, Provenance
from millrace.servers import bundle_libraries, catalogue, manifest, provenance
from millrace.servers.instances import launch
from millrace.servers.manifest import Layout, Manifest
from millrace.servers.sources.coordinates import ArchivePart
from millrace.servers.sources.fetch import Arrived, Package, fetch_packages
from millrace.servers.unpack import extract_member, unpack

_ANSWER_LIMIT_S = 60
_SHARED_OBJECT = re.compile(r".*\.so(\.\w+)*")


@dataclass(frozen=True)
class ServerRequest:
    """The requested server and its origin; ``version`` None accepts any reported version."""

    name: str
    family: str
    origin: Provenance
    version: str | None = None


def draft_of(final: Path) -> Path:
    """Return the temporary path of ``final``; always the same one, so leftovers are removed."""
    return final.with_name(f".{final.name}.part")


@contextmanager
def workplace(final: Path) -> Iterator[Path]:
    """Yield an empty directory that is renamed to ``final`` on success; the caller has a lock."""
    place = draft_of(final)
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(mode=0o755, parents=True)
    try:
        yield place
        place.rename(final)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def unpack_parts(artefact: Path, parts: Sequence[ArchivePart], tree: Path, family: str) -> None:
    """Unpack the files that a server of ``family`` needs from an artefact into its tree."""
    keep = databases.get(family).packaging.is_needed
    for part in parts:
        with tempfile.TemporaryDirectory(prefix=".inner-", dir=tree.parent) as scratch:
            archive = (
                extract_member(artefact, part.inner, Path(scratch)) if part.inner else artefact
            )
            unpack(archive, tree / part.into, root=part.root, keep=keep)


def unpack_libraries(packages: Sequence[Package], into: Path) -> list[bundle_libraries.Fetched]:
    """Unpack the shared libraries of Debian packages, each into a directory of its own."""
    fetched = []
    for package in packages:
        directory = into / package.file.name
        unpack(package.file, directory, keep=_is_library)
        fetched.append(bundle_libraries.Fetched(package.artefact, directory))
    return fetched


def _is_library(path: PurePosixPath) -> bool:
    # lib64 holds only the loader's well-known path, as a link that is relative to the host's root.
    return _SHARED_OBJECT.fullmatch(path.name) is not None and "lib64" not in path.parts


def finish(
    place: Path, tree: Path, request: ServerRequest, packages: Sequence[Package], on_event: OnEvent
) -> Manifest:
    """Find the server in ``tree``, bundle its libraries, query its program and write its manifest.

    ``place`` becomes the server's directory. ``tree`` is inside ``place``, or elsewhere and then
    used in place. ``packages`` are the artefact's own; libraries that hosts often lack are fetched
    too. Raise UserError for a tree without a complete server of the family. Raise HostError when
    the program cannot run here; the message names the missing library.
    """
    located = databases.get(request.family).packaging.locate(tree)
    _require_executable(located.program, place)
    bundled = _bundle_libraries(place, located, request.name, packages, on_event)
    directories = (place / "lib", *bundled.bundled_dirs)
    layout = Layout(
        base_dir=_from(place, located.base_dir),
        program=_from(place, located.program),
        share_dir=_from(place, _share_dir(located, place)),
        loader=f"lib/{bundled.loader}" if bundled.loader else None,
        library_dirs=tuple(_from(place, each) for each in directories),
    )
    answer = ask(request, *manifest.launch(layout, place))
    _check(request, answer, located)
    known = dict.fromkeys((*request.origin.artefacts, *bundled.artefacts))
    origin = replace(request.origin, artefacts=tuple(known))
    own_loader = bundled.loader is not None
    made = Manifest(
        name=request.name,
        family=answer.family,
        version=answer.version,
        layout=layout,
        provenance=_observed(origin, located.program, directories, own_loader=own_loader),
    )
    files = provenance.digests(manifest.server(made, place))
    made = replace(made, files={_inside(place, Path(path)): files[path] for path in files})
    manifest.write(made, place)
    manifest.read(place)  # an unreadable manifest would stop every later command
    return made


def _require_executable(program: Path, place: Path) -> None:
    """Make an unpacked program executable: a zip archive may have lost the mode.

    Raise UserError for a program that is used in place. It may belong to another user, who could
    replace it by a link to any file of the host.
    """
    if os.access(program, os.X_OK):
        return
    if not program.is_relative_to(place.resolve()):
        raise UserError(
            f"{program} is not executable",
            hint=f"complete the build, or as the owner run: chmod +x {shlex.quote(str(program))}",
        )
    program.chmod(0o755)


def assemble(
    final: Path,
    request: ServerRequest,
    arrived: Arrived,
    parts: Sequence[ArchivePart],
    on_event: OnEvent,
) -> InstalledServer:
    """Unpack an artefact and finish its server in ``final``. Raise as ``unpack``, ``finish``."""
    on_event(Notice(f"unpacking {request.name}"))
    with workplace(final) as place:
        unpack_parts(arrived.file, parts, place / "tree", request.family)
        for plugin in arrived.plugins:
            unpack_parts(plugin.file, (ArchivePart(),), place / "tree", request.family)
        packages = (*arrived.packages, *arrived.plugins)
        made = finish(place, place / "tree", request, packages, on_event)
    return manifest.server(made, final)


def _observed(
    origin: Provenance, program: Path, library_dirs: Sequence[Path], *, own_loader: bool
) -> Provenance:
    try:
        return provenance.observe(origin, program, library_dirs, own_loader=own_loader)
    except ELFError as error:
        raise UserError(
            f"{program} is not a valid ELF file: {error}", hint="build or download the server again"
        ) from error


def _bundle_libraries(
    place: Path, located: Located, name: str, packages: Sequence[Package], on_event: OnEvent
) -> bundle_libraries.BundledLibraries:
    program, base_dir = located.program, located.base_dir
    with tempfile.TemporaryDirectory(prefix=".libraries-", dir=place) as scratch:
        if not packages:
            packages = _often_lacking(name, program, base_dir, Path(scratch), on_event)
        fetched = unpack_libraries(packages, Path(scratch) / "unpacked")
        return bundle_libraries.bundle(program, base_dir, fetched, place / "lib")


def _share_dir(located: Located, place: Path) -> Path:
    """Return the share directory, or a directory of links if the SQL is elsewhere (build tree)."""
    if located.sql_dir is None or located.sql_dir == located.share_dir:
        return located.share_dir
    together = place / "share"
    together.mkdir(mode=0o755)
    for path in (*located.share_dir.iterdir(), *located.sql_dir.glob("*.sql")):
        link = together / path.name
        if not link.is_symlink():
            inside = path.is_relative_to(place)
            link.symlink_to(os.path.relpath(path, together) if inside else path)
    return together


def _check(request: ServerRequest, answer: Build, located: Located) -> None:
    """Check the family, the version, and the files that initialise a data directory."""
    if answer.family != request.family:
        raise UserError(
            f"{request.name}: expected a server of the family {request.family}, but the program "
            f"reports {answer.family}",
            hint=f"use --family {answer.family}",
        )
    if request.version is not None and answer.version != request.version:
        raise PermanentHostError(
            f"{request.name} from {request.origin.source}: expected version {request.version}, "
            f"but the server program reports {answer.version}",
            hint="`millrace servers list` shows other builds",
        )
    missing = databases.get(answer.family).packaging.missing(answer, located)
    if missing is not None:
        raise Incomplete(
            f"{request.name}: {located.base_dir} has no {missing}, which is needed to initialise a "
            "data directory",
            hint="use a complete installation, with its share directory",
        )


def _often_lacking(
    name: str, program: Path, base_dir: Path, workspace: Path, on_event: OnEvent
) -> tuple[Package, ...]:
    """Return packages of libraries that hosts often lack; report a failed download and go on."""
    known = catalogue.libraries()
    lacking = bundle_libraries.lacking(program, base_dir, known)
    try:
        return fetch_packages([known[each] for each in lacking], workspace, on_event)
    except HostError as error:
        on_event(Notice(f"{name} will use {', '.join(lacking)} of this host: {error.message}"))
        return ()


def _from(place: Path, path: Path) -> str:
    """Return a path for the manifest: relative if it is inside the server's directory."""
    return _inside(place.resolve(), path.resolve())


def _inside(place: Path, path: Path) -> str:
    """Return a path as ``_from`` does, without resolving links, whose targets may change."""
    return str(path.relative_to(place) if path.is_relative_to(place) else path)


def ask(request: ServerRequest, argv: Sequence[str], env: dict[str, str]) -> Build:
    """Query the server program for its version. Raise PermanentHostError if it cannot run."""
    packaging = databases.get(request.family).packaging
    try:
        done = launch.run_once(
            request.name, argv, env, packaging.version_arguments, _ANSWER_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PermanentHostError(
            f"{request.name}: {argv[-1]} cannot be run on this host: {error}"
        ) from error
    build = packaging.read_version(done.output)
    if done.status != 0 or build is None:
        words = (done.errors or done.output).strip() or f"exit status {done.status}"
        raise PermanentHostError(
            f"{request.name}: {argv[-1]} cannot be run on this host: {words}",
            hint="if the message names a library, install its package and try again",
        )
    return build
