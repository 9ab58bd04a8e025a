"""What the families of the mysqld line have in common: a family.toml, read into a Family.

Two ways make a data directory. ``bootstrap`` feeds the package's own SQL scripts to the server's
standard input; ``initialize`` asks the server to do it itself. Which one, which scripts, and the
statements that leave root@localhost and root@127.0.0.1 as the only accounts, both with a password,
are data of the family and depend on the version: the last entry whose ``since`` is not newer than
the server counts.

What servers can be asked about themselves is much the same in all families: mysqld.toml has it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from millrace.databases.base import (
    Explains,
    Family,
    Initialisation,
    Observable,
    Pressure,
    Replacement,
    Site,
    Table,
    WriteBack,
    version_key,
)
from millrace.errors import TrialFailed
from millrace.model.servers import InstalledServer, Option

Data = Mapping[str, Any]

_COMMON = Path(__file__).with_name("mysqld.toml")


def read_family(source: Path) -> Family:
    """The family that a family.toml describes."""
    data = tomllib.loads(source.read_text(encoding="utf-8"))
    return Family(
        name=data["name"],
        title=data["title"],
        says=re.compile(data["says"]),
        host_variables=tuple(data["host_variables"]),
        shaping_options=frozenset(data["shaping_options"]),
        traceless_options=tuple(data["traceless_options"]),
        administrative_options=frozenset(data["administrative_options"]),
        replacements=tuple(Replacement(**pair) for pair in data.get("replacement", ())),
        forget_binary_log=tuple(data["forget_binary_log"].items()),
        write_back=_write_back(data["write_back"]),
        observable=_observable(data["observable"]),
        initialisation=partial(_initialisation, data),
        start_arguments=partial(_start_arguments, data),
        program_arguments=_program_arguments,
    )


def _write_back(data: Data) -> WriteBack:
    return WriteBack(
        question=data["question"],
        figures={name: re.compile(pattern) for name, pattern in data["figures"].items()},
        pressure=tuple(Pressure(**each) for each in data["pressure"]),
    )


def _observable(data: Data) -> Observable:
    """What the family adds to what all servers of the line can be asked."""
    common = tomllib.loads(_COMMON.read_text(encoding="utf-8"))["observable"]
    return Observable(
        status=common["status"],
        gauges=(*common["gauges"], *data["gauges"]),
        metric_gauges=tuple(common["metric_gauges"]),
        engine_status=common["engine_status"],
        process_list=common["process_list"],
        performance_schema=common["performance_schema"],
        thread_handling=common["thread_handling"],
        explains=tuple(
            Explains(entry["since"], entry["form"], frozenset(entry["verbs"]))
            for entry in data["explains"]
        ),
        tables={name: _table(table) for name, table in common["tables"].items()},
        thread_kinds=tuple(
            (entry["kind"], re.compile(entry["pattern"])) for entry in common["thread_kinds"]
        ),
        thread_functions={
            name: kind for kind, names in common["thread_functions"].items() for name in names
        },
    )


def _table(data: Data) -> Table:
    return Table(
        name=data["name"],
        columns={
            ours: (theirs,) if isinstance(theirs, str) else tuple(theirs)
            for ours, theirs in data["columns"].items()
        },
        where=data.get("where"),
        instruments=data.get("instruments"),
        consumers=tuple(data.get("consumers", ())),
    )


def _program_arguments(site: Site) -> tuple[str, ...]:
    """The arguments of every run of the program: its own files, never those of the host."""
    server = site.server
    arguments = [
        "--no-defaults",
        f"--basedir={server.base_dir}",
        f"--datadir={site.data_dir}",
        f"--tmpdir={site.tmp_dir}",
        f"--lc-messages-dir={server.share_dir}",
        # MySQL 5.7 forbids server-side LOAD DATA by default, 9.7 does not start without its own
        # default directory.
        f"--secure-file-priv={site.load_dir}",
    ]
    charsets = server.share_dir / "charsets"
    if charsets.is_dir():
        arguments.append(f"--character-sets-dir={charsets}")
    if site.user_argument is not None:
        arguments.append(f"--user={site.user_argument}")
    return tuple(arguments)


def _start_arguments(data: Data, site: Site) -> tuple[str, ...]:
    version = version_key(site.server.version)
    arguments = [
        *_program_arguments(site),
        f"--socket={site.socket}",
        f"--port={site.port}",
        "--bind-address=127.0.0.1",
        f"--pid-file={site.pid_file}",
        "--local-infile=1",
    ]
    if not site.by_tcp:
        arguments.append("--skip-networking")
    for entry in data["start"]:
        if version_key(entry["since"]) <= version:
            arguments += entry["arguments"]
    return tuple(arguments)


def _initialisation(data: Data, site: Site, options: tuple[Option, ...]) -> Initialisation:
    """``options`` are those of the configuration that shape the data directory."""
    entry = _entry_for(data["initialisation"], site.server)
    accounts = "".join(
        statement.format(password=site.password) + ";\n" for statement in entry["accounts"]
    )
    shaping = [
        f"--{option.name}" if option.value is None else f"--{option.name}={option.value}"
        for option in options
    ]
    arguments = [*_program_arguments(site), *entry["arguments"], *shaping]
    if entry["method"] == "initialize":
        return Initialisation(arguments=tuple(arguments), init_file=accounts.encode())
    scripts = [path.read_bytes() for path in _scripts(entry, site.server)]
    statements = [f"{statement};\n".encode() for statement in entry["first"]]
    return Initialisation(
        arguments=tuple(arguments),
        directories=("mysql",),
        stdin=b"\n".join([*statements, *scripts, accounts.encode()]),
    )


def _entry_for(entries: list[dict[str, Any]], server: InstalledServer) -> dict[str, Any]:
    version = version_key(server.version)
    return [entry for entry in entries if version_key(entry["since"]) <= version][-1]


def _scripts(entry: Data, server: InstalledServer) -> list[Path]:
    found = []
    for script in entry["scripts"]:
        candidates = [server.share_dir / name for name in script["any_of"]]
        present = [path for path in candidates if path.is_file()]
        if present:
            found.append(present[0])
        elif not script.get("optional", False):
            raise TrialFailed(
                f"{server.name}: {server.share_dir} has no {' or '.join(script['any_of'])}, "
                "which is needed to make a data directory",
                hint="install the server again, or add a build that is complete",
                step="initialise",
            )
    return found
