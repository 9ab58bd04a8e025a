"""Artefacts of the Maven repository that the user's ``mvn`` is set to."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

from millrace.errors import HostError
from millrace.servers.progress import Progress
from millrace.servers.sources import clients, maven_settings
from millrace.servers.sources.coordinates import Maven

# Pinned, so that every host asks in the same way. Later ones also read the artefact's pom, and some
# of ours have a pom whose parent was never published.
_GET = "org.apache.maven.plugins:maven-dependency-plugin:2.10:get"
_HOME = re.compile(r"^Maven home: (.+)$", re.MULTILINE)


def address(coordinate: Maven) -> str | None:
    """Where plain HTTP finds the artefact; None where only ``mvn`` can get it.

    Raises HostError when ``mvn`` is missing or does not work.
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
    """Bring one artefact through ``mvn`` into the local ``repository``, a directory of ours.

    Returns its path. ``mvn`` keeps the plugin it works with in the same repository for the next
    time. Raises HostError in the words of ``mvn``.
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
    """Where the standard layout of a Maven repository has the artefact."""
    classifier = "" if coordinate.classifier is None else f"-{coordinate.classifier}"
    name = f"{coordinate.artifact}-{coordinate.version}{classifier}.{coordinate.extension}"
    return repository.joinpath(
        *coordinate.group.split("."), coordinate.artifact, coordinate.version, name
    )


def _user_home() -> Path:
    """The user's home as Java knows it: from the account, whatever HOME says."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path.home()
