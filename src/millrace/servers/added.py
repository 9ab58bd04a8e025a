"""Servers the user added: a vendor's tarball, a build tree, a server that runs elsewhere.

<state>/servers/NAME/server.json     a tarball's server (in tree/ beside it) or a directory's
<state>/servers/NAME/attached.json   a server that is not ours; holds a password, mode 0600
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace import paths
from millrace.errors import HostProblem, UserError
from millrace.servers import assemble, attached, catalogue, elf, locate, manifest, provenance
from millrace.servers.catalogue import Part
from millrace.servers.locate import Located
from millrace.servers.locks import exclusive
from millrace.servers.manifest import Layout, Manifest
from millrace.servers.model import AttachedServer, InstalledServer, Provenance, Server
from millrace.servers.progress import Progress, Silent
from millrace.servers.sources.fetch import fetch_tarball

FAMILIES = ("mysql", "mariadb")
_ATTACHED = "attached.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_OWN_LIBRARY_DIRS = ("lib", "lib64", "libs", "lib/private", "library_output_directory")


def add_tarball(
    name: str,
    family: str,
    location: str,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
) -> InstalledServer:
    """Add the server of a vendor's archive, from a URL or a path.

    Raises UserError (name taken, no server in it, another family), HostProblem (download, damage).
    """
    progress = progress or Silent()
    final = _directory(name)
    workspace = paths.cache_dir() / "downloads" / f"added-{name}"
    with _adding(name, family, progress):
        arrived = fetch_tarball(location, sha256, workspace, progress)
        progress.say(f"unpacking {name}")
        with assemble.workplace(final) as place:
            assemble.unpack_parts(arrived.file, (Part(),), place / "tree")
            origin = Provenance(source=arrived.artefact.coordinate, artefacts=(arrived.artefact,))
            made = assemble.finish(place, name, (), origin, progress)
            _same_family(name, family, made.family)
            _can_be_initialised(name, made, locate.locate(place / "tree"))
        shutil.rmtree(workspace, ignore_errors=True)
    return manifest.server(made, final)


def add_directory(
    name: str, family: str, directory: Path, *, progress: Progress | None = None
) -> InstalledServer:
    """Add the server of an installed tree or a developer's build tree; it is used in place.

    Raises UserError that says what is missing there.
    """
    directory = directory.expanduser().absolute()
    if not directory.is_dir():
        raise UserError(f"there is no directory {directory}")
    final = _directory(name)
    with _adding(name, family, progress or Silent()):
        located = locate.locate(directory)
        with assemble.workplace(final) as place:
            made = _describe(name, directory, located, place, final)
            _same_family(name, family, made.family)
            _can_be_initialised(name, made, located)
            manifest.write(made, place)
    return manifest.server(made, final)


def add_attached(name: str, family: str, dsn: str) -> AttachedServer:
    """Add a running server that is not ours; it is not asked anything now.

    Raises UserError, which never shows the password, for an address that cannot be one.
    """
    server = AttachedServer(name=name, family=family, dsn=dsn)
    attached.parse_dsn(server)
    with _adding(name, family, Silent()), assemble.workplace(_directory(name)) as place:
        descriptor = os.open(place / _ATTACHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"name": name, "family": family, "dsn": dsn}, file)
    return server


def added(name: str) -> Server | None:
    """The server the user added under this name. Raises HostProblem when its record is damaged."""
    if _NAME.fullmatch(name) is None:
        return None
    directory = _directory(name)
    made = manifest.read(directory)
    if made is not None:
        return manifest.server(made, directory)
    try:
        document = json.loads((directory / _ATTACHED).read_text(encoding="utf-8"))
        return AttachedServer(**document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise HostProblem(
            f"{directory / _ATTACHED} cannot be read: {reason}",
            remedy=f"as its owner: millrace servers remove {name}, and add it again",
        ) from error


def all_added() -> list[Server]:
    """Every server the user added, by name."""
    directory = _servers_dir()
    names = sorted(each.name for each in directory.iterdir()) if directory.is_dir() else []
    return [server for name in names if (server := added(name)) is not None]


def forget(name: str) -> bool:
    """Forget an added server; False when there is none. A directory used in place stays."""
    if _NAME.fullmatch(name) is None or not _directory(name).is_dir():
        return False
    with exclusive(_lock(name), f"adding {name}", Silent()):
        shutil.rmtree(_directory(name), ignore_errors=False)
    return True


@contextmanager
def _adding(name: str, family: str, progress: Progress) -> Iterator[None]:
    """Hold the name while a server is added under it, once it is known to be free and right."""
    if _NAME.fullmatch(name) is None:
        raise UserError(
            f"{name!r} is no name for a server",
            remedy="use lower-case letters, digits, dots, dashes and underscores",
        )
    if family not in FAMILIES:
        raise UserError(f"there is no family {family!r}", remedy=f"use {' or '.join(FAMILIES)}")
    if name in catalogue.entries():
        raise UserError(f"{name} is a server of the catalogue", remedy="choose another name")
    with exclusive(_lock(name), f"adding {name}", progress):
        if _directory(name).exists():
            raise UserError(
                f"there is a server {name} already",
                remedy=f"choose another name, or: millrace servers remove {name}",
            )
        yield


def _describe(name: str, directory: Path, located: Located, place: Path, final: Path) -> Manifest:
    """The manifest of a server that stays where it is."""
    needed = set(elf.needed(located.program))
    own = [located.base_dir / each for each in _OWN_LIBRARY_DIRS]
    library_dirs = [each for each in own if any((each / name).exists() for name in needed)]
    layout = Layout(
        base_dir=str(located.base_dir),
        program=str(located.program),
        share_dir=str(_share_dir(located, place, final)),
        library_dirs=tuple(map(str, library_dirs)),
    )
    answer = assemble.ask(name, *manifest.launch(layout, place))
    origin = Provenance(source=f"dir:{directory}", artefacts=())
    return Manifest(
        name=name,
        family=answer.family,
        version=answer.version,
        layout=layout,
        provenance=provenance.observe(origin, located.program, library_dirs, own_loader=False),
    )


def _share_dir(located: Located, place: Path, final: Path) -> Path:
    """The share directory; where a build tree keeps its SQL elsewhere, one of links to both."""
    if located.sql_dir in (None, located.share_dir):
        return located.share_dir
    assert located.sql_dir is not None
    together = place / "share"
    together.mkdir(mode=0o755)
    for path in (*located.share_dir.iterdir(), *located.sql_dir.glob("*.sql")):
        if not (together / path.name).exists():
            (together / path.name).symlink_to(path.resolve())
    return final / "share"


def _same_family(name: str, wanted: str, found: str) -> None:
    if wanted != found:
        raise UserError(
            f"{name}: its program says that it is of the family {found}, not {wanted}",
            remedy=f"use --family {found}",
        )


def _can_be_initialised(name: str, made: Manifest, located: Located) -> None:
    """MySQL from 5.7 carries its system tables in the program; all others read them from files."""
    version = tuple(map(int, made.version.split(".")))
    if (made.family == "mysql" and version >= (5, 7)) or located.sql_dir is not None:
        return
    raise UserError(
        f"{name}: no {' or '.join(locate.SYSTEM_TABLES)} below {located.base_dir}: "
        "the server cannot be given a data directory",
        remedy="give a complete installation, with its share directory",
    )


def _servers_dir() -> Path:
    return paths.state_dir() / "servers"


def _directory(name: str) -> Path:
    return _servers_dir() / name


def _lock(name: str) -> Path:
    return _servers_dir() / f".{name}.lock"
