"""Provide an installed server that is never started."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from millrace.model.servers import InstalledServer, Provenance


def installed(directory: Path, name: str = "mysql-8.0.33", **changes: Any) -> InstalledServer:
    """Return a server whose program is ``directory/mysqld``; ``changes`` are fields that differ."""
    family, version = name.split("-", 1)
    program = directory / "mysqld"
    server = InstalledServer(
        name=name,
        family=family,
        version=version,
        base_dir=directory,
        program=program,
        argv=(str(program),),
        env={},
        share_dir=directory,
        provenance=Provenance("test", ()),
    )
    return replace(server, **changes)
