"""Packages of an npm registry, through ``npm``: its settings name the registry and the proxy."""

from __future__ import annotations

from pathlib import Path

from millrace.errors import HostProblem
from millrace.servers.progress import Progress
from millrace.servers.sources import clients
from millrace.servers.sources.coordinates import Npm


def fetch(coordinate: Npm, into: Path, size_bytes: int | None, progress: Progress) -> Path:
    """Bring one package as a .tgz into the directory ``into`` and return its path.

    Nothing of the package is run. Raises HostProblem in the words of ``npm``.
    """
    into.mkdir(parents=True, exist_ok=True)
    output = clients.run(
        [
            "npm",
            "pack",
            f"{coordinate.name}@{coordinate.version}",
            f"--pack-destination={into}",
            f"--cache={into / 'npm-cache'}",
            "--ignore-scripts",
            "--loglevel=error",
        ],
        purpose=f"to download {coordinate}",
        watch=clients.watch_growth(into, str(coordinate), size_bytes, progress),
    )
    lines = output.split()
    arrived = into / lines[-1] if lines else into
    if not arrived.is_file():
        raise HostProblem(f"npm says that it downloaded {coordinate}, but nothing is in {into}")
    return arrived
