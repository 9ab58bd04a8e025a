"""Fetch artefacts of the Maven repository in the settings of the user's ``mvn``."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

from millrace.errors import HostError
from millrace.servers.progress import Progress
from millrace.servers.sources import clients, maven_settings
from millrace.servers.sources.coordinates import Maven

# Pinned, so that every host sends the same requests. Later versions also read the artefact's pom,
# and the parent of some poms was never published.
_GET = "org.apache.maven.plugins:maven-dependency-plugin:2.10:get"
_HOME = re.compile(r"^Maven home: (.+)$", re.MULTILINE)


def address(coordinate: Maven) -> str | None:
    """Return the URL of the artefact for plain HTTP; None where only ``mvn`` can fetch it.

    Raise HostError when ``mvn`` is missing or does not work.
    """
    user_home = _user_home()
    if maven_settings.told_elsewhere(Path.cwd(), user_home):
        return None
    home = _HOME.search(clients.run(["mvn", "--version"], purpose=f"to download {coordinate}"))
    if home is None:
        return None
    repository = maven_settings.repository(user_home, Path(home.group(1).strip()))
    return None if repository is None else f"{repository.url}/{place(coordinate, Path())}"


def fetch(coordinate: Maven, repository: Path, size_bytes: int | None, progress: Progress) -> Path:
    """Fetch one artefact through ``mvn`` into the local ``repository``, a directory of millrace's.

    Return its path. ``mvn`` keeps its plugin in the same repository for the next time. Raise
    HostError with the words of ``mvn``.
    """
    arrived = place(coordinate, repository)
    if arrived.is_file():
        return arrived
    arrived.parent.mkdir(parents=True, exist_ok=True)
    clients.run(
        [
            "mvn",
            "--batch-mode",
            "--quiet",
            "-Dstyle.color=never",
            _GET,
            f"-Dartifact={_argument(coordinate)}",
            "-Dtransitive=false",
            f"-Dmaven.repo.local={repository}",
        ],
        purpose=f"to download {coordinate}",
        watch=clients.watch_growth(arrived.parent, str(coordinate), size_bytes, progress),
    )
    if not arrived.is_file():
        raise HostError(f"mvn says that it downloaded {coordinate}, but {arrived} is not there")
    return arrived


def _argument(coordinate: Maven) -> str:
    words = [coordinate.group, coordinate.artifact, coordinate.version, coordinate.extension]
    if coordinate.classifier is not None:
        words.append(coordinate.classifier)
    return ":".join(words)


def place(coordinate: Maven, repository: Path) -> Path:
    """Return the artefact's path in the standard layout of a Maven repository."""
    classifier = "" if coordinate.classifier is None else f"-{coordinate.classifier}"
    name = f"{coordinate.artifact}-{coordinate.version}{classifier}.{coordinate.extension}"
    return repository.joinpath(
        *coordinate.group.split("."), coordinate.artifact, coordinate.version, name
    )


def _user_home() -> Path:
    """Return the user's home as Java finds it: from the account, whatever HOME says."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path.home()
