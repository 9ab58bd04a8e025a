"""Artefacts of a Maven repository, through ``mvn``: its settings name the mirror and the proxy."""

from __future__ import annotations

from pathlib import Path

from millrace.errors import HostProblem
from millrace.servers.progress import Progress
from millrace.servers.sources import clients
from millrace.servers.sources.coordinates import Maven

# Pinned, so that every host asks in the same way. Later ones also read the artefact's pom, and some
# of ours have a pom whose parent was never published.
_GET = "org.apache.maven.plugins:maven-dependency-plugin:2.10:get"


def fetch(coordinate: Maven, repository: Path, size_bytes: int | None, progress: Progress) -> Path:
    """Bring one artefact into the local ``repository`` (a directory of ours) and return its path.

    ``mvn`` keeps the plugin it works with in the same repository for the next time. Raises
    HostProblem in the words of ``mvn``.
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
        raise HostProblem(f"mvn says that it downloaded {coordinate}, but {arrived} is not there")
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
