"""Makes a server that can boot out of what was downloaded.

A finished server is a directory: ``tree/`` what the vendor made, ``lib/`` the libraries millrace
laid beside it, ``server.json`` the manifest. It is made under another name and renamed when it is
complete and its program has answered, so that a server that is there works.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from millrace.errors import HostProblem
from millrace.servers import catalogue, libraries, locate, manifest, provenance
from millrace.servers.catalogue import Part
from millrace.servers.manifest import Layout, Manifest
from millrace.servers.model import Provenance
from millrace.servers.progress import Progress
from millrace.servers.sources.fetch import Package, fetch_packages
from millrace.servers.unpack import extract_member, unpack

_ANSWER_LIMIT_S = 60
_VERSION = re.compile(r"Ver (\d+\.\d+\.\d+)")
_SHARED_OBJECT = re.compile(r".*\.so(\.\w+)*")
_LICENCE = re.compile(r"(COPYING|LICENSE|README|copyright).*")
_CLIENT_LIBRARY = re.compile(r"lib(mysqlclient|mariadb|mysqld|mysqlservices)\b.*")
_NOT_NEEDED = frozenset(
    (
        "mysql-test",
        "mariadb-test",
        "sql-bench",
        "mysqlrouter",
        "debug",
        "man",
        "doc",
        "docs",
        "lintian",
    )
)


@dataclass(frozen=True)
class Answer:
    """What a server program says to ``--version``."""

    family: str
    version: str
    text: str


@contextmanager
def workplace(final: Path) -> Iterator[Path]:
    """An empty directory beside ``final``, which it becomes when the block ends well."""
    final.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    place.chmod(0o755)
    try:
        yield place
        place.rename(final)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def needed_by_a_server(path: PurePosixPath) -> bool:
    """Whether a member of a vendor's archive is of use here: program, libraries, share, licence.

    Tests, benchmarks, manuals, headers, static libraries and the vendor's clients are not.
    """
    folders = path.parts[:-1]
    if _NOT_NEEDED & set(folders) or _CLIENT_LIBRARY.fullmatch(path.name):
        return False
    if path.name in locate.PROGRAMS or _SHARED_OBJECT.fullmatch(path.name):
        return True
    if "share" in folders or (folders[-1:] == ("scripts",) and path.suffix == ".sql"):
        return True
    return len(folders) <= 1 and _LICENCE.fullmatch(path.name) is not None


def unpack_parts(artefact: Path, parts: Sequence[Part], tree: Path) -> None:
    """Unpack the parts of an artefact into a server's tree."""
    for part in parts:
        with tempfile.TemporaryDirectory(prefix=".inner-", dir=tree.parent) as scratch:
            archive = (
                extract_member(artefact, part.inner, Path(scratch)) if part.inner else artefact
            )
            unpack(archive, tree / part.into, root=part.root, keep=needed_by_a_server)


def unpack_libraries(packages: Sequence[Package], into: Path) -> list[libraries.Fetched]:
    """Unpack the shared libraries of Debian packages, each into a directory of its own."""
    fetched = []
    for package in packages:
        directory = into / package.file.name
        unpack(package.file, directory, keep=_is_library)
        fetched.append(libraries.Fetched(package.artefact, directory))
    return fetched


def _is_library(path: PurePosixPath) -> bool:
    # lib64 has only the loader's well-known place, as a link that means the root of the host.
    return _SHARED_OBJECT.fullmatch(path.name) is not None and "lib64" not in path.parts


def finish(
    place: Path, name: str, packages: Sequence[Package], origin: Provenance, progress: Progress
) -> Manifest:
    """Find the server in ``place/tree``, lay its libraries, ask its program, write its manifest.

    ``packages`` came with the artefact. Libraries that hosts often lack are fetched as well. Raises
    HostProblem when the program cannot be run here, naming the library it lacks.
    """
    tree = place / "tree"
    located = locate.locate(tree)
    located.program.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix=".libraries-", dir=place) as scratch:
        if not packages:
            packages = _often_lacking(name, located.program, tree, Path(scratch), progress)
        fetched = unpack_libraries(packages, Path(scratch) / "unpacked")
        laid = libraries.lay(located.program, tree, fetched, place / "lib")
    directories = (place / "lib", *laid.bundled_dirs)
    layout = Layout(
        base_dir=_below(located.base_dir, place),
        program=_below(located.program, place),
        share_dir=_below(located.share_dir, place),
        loader=f"lib/{laid.loader}" if laid.loader else None,
        library_dirs=tuple(_below(each, place) for each in directories),
    )
    origin = replace(origin, artefacts=(*origin.artefacts, *laid.artefacts))
    argv, env = manifest.launch(layout, place)
    answer = ask(name, argv, env)
    made = Manifest(
        name=name,
        family=answer.family,
        version=answer.version,
        layout=layout,
        provenance=provenance.observe(
            origin, located.program, directories, own_loader=laid.loader is not None
        ),
    )
    manifest.write(made, place)
    return made


def _often_lacking(
    name: str, program: Path, tree: Path, workspace: Path, progress: Progress
) -> tuple[Package, ...]:
    """The packages of the libraries that the program asks for and hosts often lack.

    A host that cannot get them may still have them, so that this is no reason to give up.
    """
    known = catalogue.libraries()
    lacking = libraries.lacking(program, tree, known)
    try:
        return fetch_packages([known[each] for each in lacking], workspace, progress)
    except HostProblem as error:
        progress.say(f"{name} wants {', '.join(lacking)} of this host: {error.message}")
        return ()


def _below(path: Path, place: Path) -> str:
    return str(path.resolve().relative_to(place.resolve()))


def ask(name: str, argv: Sequence[str], env: dict[str, str]) -> Answer:
    """Run the server program with ``--version``; HostProblem when it cannot be run on this host."""
    try:
        done = subprocess.run(
            [*argv, "--no-defaults", "--version"],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostProblem(f"{name}: {argv[-1]} cannot be run on this host: {error}") from error
    match = _VERSION.search(done.stdout)
    if done.returncode != 0 or match is None:
        words = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise HostProblem(
            f"{name}: {argv[-1]} cannot be run on this host: {words}",
            remedy="if it names a library, install the package that has it and try again",
        )
    family = "mariadb" if "mariadb" in done.stdout.lower() else "mysql"
    return Answer(family, match[1], done.stdout.strip())
