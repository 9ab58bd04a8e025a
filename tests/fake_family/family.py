"""Provide a family for tests, whose servers follow a script and whose clients never wait.

    server = family.install("slow-1", family.Script(operation_s=0.002), directory)
    family.register(monkeypatch)

A script sets the speed, the options and their costs, the waits, and the steps at which the server
fails. Servers are real processes with a data directory, a socket and an error log, so that tests
run plan, trial, store, analysis and report as a whole; ``install_load_generator`` installs a
replacement for the load generator that reports the work of imaginary clients.
"""

import contextlib
import re
import signal
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import pytest

from millrace import databases
from millrace.databases.base import (
    Build,
    Family,
    FileOptions,
    Incomplete,
    Initialisation,
    Located,
    LogPatterns,
    Options,
    PendingSample,
    PoolStatus,
    Site,
    StorageState,
    StoredSettings,
    TableSize,
)
from millrace.databases.client import DatabaseClient, Session
from millrace.databases.table_checks import KeptTable, Reading
from millrace.databases.table_formats import TableBytes, TableFormat
from millrace.errors import UserError
from millrace.model.instance_facts import ServerStateFact
from millrace.model.servers import Configuration, InstalledServer, KnownOptions, Option, Provenance
from millrace.model.steady_limits import SteadyLimits
from millrace.workloads.tables import Volume
from tests.fake_family.session import FakeMonitoring, ask, ask_in, connect

_PAGE_BYTES = 16384
_POOL_BYTES = 1 << 30


@dataclass(frozen=True)
class Script:
    """The behaviour of a fake server.

    ``operation_s`` is the time of an operation, multiplied by ``option_costs`` of each
    ``NAME=VALUE`` in force and by a lognormal noise of ``spread`` that each start draws.
    ``options`` are the known options with their defaults. ``waits`` are the seconds of each wait in
    an operation. ``failures`` are the messages for the steps at which the server fails: initialise,
    start or measure. ``recovery`` is what its log says where its data directory has a file
    ``torn``, which it then removes.
    """

    version: str = "1.0.0"
    operation_s: float = 0.001
    spread: float = 0.003
    seed: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    option_costs: Mapping[str, float] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    recovery: str = ""


def install(name: str, script: Script, directory: Path) -> InstalledServer:
    """Write the server's program into a directory, and return the server."""
    program = _write_program(directory / "fake-server", asdict(script))
    return InstalledServer(
        name=name,
        family="fake",
        version=script.version,
        base_dir=directory,
        program=program,
        argv=(str(program),),
        env={},
        share_dir=directory,
        provenance=Provenance(source="script", artefacts=()),
    )


def install_load_generator(directory: Path) -> Path:
    """Write a load generator for fake servers into a directory, and return the program."""
    return _write_program(directory / "millrace-load", {})


def _write_program(path: Path, script: Mapping[str, Any]) -> Path:
    source = Path(__file__).with_name("program.py").read_text(encoding="utf-8")
    python = Path(sys.executable).resolve()
    text = f"#!{python} -IS\n{source}\nSCRIPT = {dict(script)!r}\nsys.exit(main())\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


class _Packaging:
    version_arguments = ("--version",)

    def is_needed(self, path: PurePosixPath) -> bool:
        return True

    def locate(self, directory: Path) -> Located:
        raise Incomplete(f"{directory}: fake servers are not installed")

    def read_version(self, output: str) -> Build | None:
        return None

    def missing(self, build: Build, located: Located) -> str | None:
        return None


class _Lifecycle:
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        self._draws: Counter[Path] = Counter()

    def socket_name(self, port: int) -> str:
        return f"fake.{port}"

    def pid_file(self, site: Site) -> Path:
        return site.run_dir / "fake.pid"

    def initialisation(self, site: Site, options: Sequence[Option]) -> Initialisation:
        return Initialisation(("--initialise", f"--data={site.data_dir}", *_arguments(options)))

    def start_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments that start the server. Each start draws its own noise."""
        self._draws[site.server.base_dir] += 1
        draw = self._draws[site.server.base_dir]
        return (f"--data={site.data_dir}", f"--socket={site.socket}", f"--draw={draw}")

    def valgrind_arguments(self, version: str) -> tuple[str, ...]:
        return ()

    def program_arguments(self, site: Site) -> tuple[str, ...]:
        return (f"--data={site.data_dir}",)


def _arguments(options: Iterable[Option]) -> list[str]:
    return [f"--{option.name}={option.value}" for option in options]


@dataclass(frozen=True, kw_only=True)
class _Options(Options):
    def forms(self, name: str) -> tuple[str, ...]:
        return (name,)

    def is_loose(self, name: str) -> bool:
        return False

    def leads_away(self, name: str, value: str) -> bool:
        return False

    def arguments(self, options: Iterable[Option]) -> list[str]:
        return _arguments(options)

    def parse_listing(self, text: str) -> KnownOptions:
        listed = dict(line.split("=", 1) for line in text.splitlines())
        return KnownOptions(frozenset(listed), listed)

    def parse_file(self, text: str) -> FileOptions:
        return FileOptions((), (), ())

    def log_bytes(self, configuration: Configuration, version: str) -> int:
        return 0

    def keeps_binary_log(self, configuration: Configuration, version: str) -> bool:
        return False


class _Administration:
    def version(self, client: DatabaseClient) -> str:
        return str(ask(client, "facts")["version"])

    def identity(self, client: DatabaseClient) -> tuple[str, str]:
        return self.version(client), "fake"

    def settings(self, client: DatabaseClient) -> dict[str, str]:
        return dict(ask(client, "facts")["settings"])

    def data_directory(self, client: DatabaseClient) -> str:
        return str(ask(client, "facts")["data_directory"])

    def create_database(self, client: DatabaseClient, name: str, limit_s: float) -> None:
        ask(client, "facts")

    def drop_database(self, client: DatabaseClient, name: str, limit_s: float) -> None:
        ask(client, "facts")

    def first_rows(
        self, client: DatabaseClient, database: str, sql: str, most: int, limit_s: float
    ) -> list[tuple[str, ...]]:
        raise NotImplementedError  # no workload of the tests has checks

    def analyze_tables(self, client: DatabaseClient, database: str, limit_s: float) -> None:
        ask(client, "facts")

    def count_rows(self, client: DatabaseClient, database: str, limit_s: float) -> int:
        return 0

    def table_sizes(self, client: DatabaseClient, database: str) -> tuple[TableSize, ...]:
        names = ask(client, "tables")
        return tuple(TableSize(name, "fake", _PAGE_BYTES, 0, is_pooled=True) for name in names)


class _LoadDialect:
    session: tuple[str, ...] = ()
    no_read_timeout: tuple[str, ...] = ()
    retried_errors: tuple[str, ...] = ()
    error_hints: Mapping[str, str] = MappingProxyType({})

    def count(self, table: str) -> str:
        return f"count {table}"

    def checksum(self, table: str, columns: Sequence[str], binary_columns: Collection[str]) -> str:
        return f"checksum {table}"


class _SelfTest:
    def insert(self, client: DatabaseClient, database: str, limit_s: float) -> str:
        return ""

    def load_file(
        self, client: DatabaseClient, database: str, directory: Path, limit_s: float
    ) -> str:
        return ""

    def require_client_load(self, client: DatabaseClient) -> str:
        return ""


class _Storage:
    engine = "plain"
    pool_option = "pool_size"
    default_pool_bytes = 128 << 20

    def table_bytes(self, volume: Volume) -> int:
        return volume.data_bytes

    def pool_status(self, client: DatabaseClient) -> PoolStatus:
        return _pool(ask(client, "counters"))

    def read_state(self, session: Session) -> StorageState:
        return StorageState(_pool(ask_in(session, "counters")), {})

    def state_afterwards(self, client: DatabaseClient, database: str) -> ServerStateFact:
        return ServerStateFact()

    def adaptive_index_reads(self, data_bytes: int, settings: Mapping[str, str]) -> int:
        return 0

    def limits(self, settings: Mapping[str, str]) -> SteadyLimits:
        return SteadyLimits()

    def pending(self, client: DatabaseClient) -> object:
        return None

    def unsettled(self, samples: Sequence[PendingSample]) -> tuple[str, ...]:
        return ()

    @contextlib.contextmanager
    def forced_flushing(self, client: DatabaseClient) -> Iterator[Mapping[str, str]]:
        yield {}


def _pool(counters: Mapping[str, Any]) -> PoolStatus:
    return PoolStatus(0, int(counters["counts"]["reads"]), _POOL_BYTES, _POOL_BYTES)


class _TableFormats:
    def resolve(self, engine: str | None, compression: str, version: str | None) -> TableFormat:
        if compression.startswith("page-"):
            raise UserError("fake servers compress no pages", hint="compression 'row'")
        return TableFormat(engine, compression)

    def comparable_options(self, version: str | None) -> Mapping[str, str]:
        return {}

    def verify(
        self,
        client: DatabaseClient,
        database: str,
        table_format: TableFormat,
        table_bytes: TableBytes | None,
    ) -> None:
        pass


class _SnapshotRules:
    excluded_files: tuple[str, ...] = ()
    link_suffixes: frozenset[str] = frozenset()
    volatile_engines: frozenset[str] = frozenset()

    def table_of(self, file: Path, database: str) -> str | None:
        return None

    def prepare(self, client: DatabaseClient) -> str | None:
        return None

    def record_tables(self, session: Session) -> tuple[KeptTable, ...]:
        return tuple(KeptTable(name, Reading((), 0, 0), None) for name in ask_in(session, "tables"))

    def truncated_files(self, options: Iterable[Option]) -> Sequence[str]:
        return ()


FAMILY = Family(
    name="fake",
    title="Fake",
    identification=re.compile("fake"),
    host_variables=("socket",),
    stored_settings=StoredSettings(),
    scheme="fake",
    port=1,
    account="root",
    programs=("fake-server",),
    has_process_per_session=False,
    connect=connect,
    packaging=_Packaging(),
    lifecycle=_Lifecycle(),
    log=LogPatterns(
        error=re.compile(rb"^ERROR: "),
        no_error=re.compile(rb"(?!)"),
        before_error=re.compile(r"^ERROR: "),
        before_words=re.compile(r"(?!)"),
        trouble=re.compile(rb"^FATAL: "),
        disk_full=re.compile(r"(?!)"),
        reasons=(),
    ),
    options=_Options(
        administrative=frozenset({"data", "socket", "draw"}),
        init_options=frozenset(),
        runtime_only=("*",),
        replacements=(),
        successors=(),
        file_groups=("server",),
        own_files=frozenset(),
        memory=frozenset(),
        needs_others=(),
        read_only=frozenset(),
        needs={},
        secrets=(),
        listing_arguments=("--list-options",),
        value_refused="refused",
    ),
    administration=_Administration(),
    load_dialect=_LoadDialect(),
    self_test=_SelfTest(),
    storage=_Storage(),
    table_formats=_TableFormats(),
    snapshots=_SnapshotRules(),
    monitoring=FakeMonitoring(),
)


def register(patch: pytest.MonkeyPatch) -> None:
    """Make millrace know the family until the patch is undone."""
    families = {**{name: databases.get(name) for name in databases.names()}, FAMILY.name: FAMILY}
    patch.setattr(databases, "_families", lambda: families)
