"""Define the protocols by which the rest of millrace uses a family of databases.

A family is a line of servers that are initialised, started, queried and observed in the same way.
No other package names a family, sends it SQL or knows its options: it calls a capability of the
family. The caller decides how long a call may take and how to handle a failure.
"""

import re
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from millrace.databases.client import Address, Connect, DatabaseClient, Session
from millrace.databases.monitoring import Monitoring
from millrace.databases.replication import Replication
from millrace.databases.table_checks import KeptTable
from millrace.databases.table_formats import TableFormats
from millrace.errors import Diagnostic, UserError
from millrace.model.instance_facts import ServerStateFact
from millrace.model.servers import Configuration, InstalledServer, KnownOptions, Option, Server
from millrace.model.steady_limits import SteadyLimits
from millrace.shown_text import shown_line
from millrace.workloads.tables import Volume

WITHHELD = "(not recorded)"
"""Replaces the value of a setting that may be a secret."""

_SWITCHES = frozenset({"", "on", "off", "yes", "no", "true", "false", "auto", "none", "disabled"})
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")


class Incomplete(UserError):
    """An error for a directory tree without a complete server."""


@dataclass(frozen=True)
class Located:
    """The parts of a server in a directory tree.

    ``sql_dir`` has the SQL files that initialise a data directory; None if there are none.
    """

    base_dir: Path
    program: Path
    share_dir: Path
    sql_dir: Path | None


@dataclass(frozen=True)
class Build:
    """The family and version that a program reports."""

    family: str
    version: str


class Packaging(Protocol):
    """The layout of a family's builds. ``version_arguments`` make the program print its version."""

    @property
    def version_arguments(self) -> tuple[str, ...]: ...

    def is_needed(self, path: PurePosixPath) -> bool:
        """Return whether a server needs a member of a vendor's archive.

        It needs the program, its libraries, shared files and licence, but neither tests, manuals,
        headers nor clients.
        """

    def locate(self, directory: Path) -> Located:
        """Find the server in a directory: installed, unpacked from a package, or freshly built.

        If the directory contains only one other (as a vendor's tarball does), search that one.
        Raise Incomplete, with the files and places that it looked for.
        """

    def read_version(self, output: str) -> Build | None:
        """Return the build that ``output`` of the program reports; None if it reports none."""

    def missing(self, build: Build, located: Located) -> str | None:
        """Return what is missing to create a data directory; None if nothing is."""


@dataclass(frozen=True)
class Site:
    """The paths, user and password of one instance, for its family's command lines.

    The server's user owns ``data_dir``, ``tmp_dir`` and ``run_dir`` (socket and pid file). ``uid``
    is the id of the server's user; None if that is millrace's user. ``user_argument`` is the value
    of ``--user`` if the server must run as root. ``password`` is the password of every account. The
    server listens on ``port`` only if ``by_tcp``.
    """

    server: InstalledServer
    directory: Path
    data_dir: Path
    tmp_dir: Path
    load_dir: Path
    run_dir: Path
    socket: Path
    port: int
    user_argument: str | None
    password: str = field(repr=False)
    by_tcp: bool = True
    uid: int | None = None


@dataclass(frozen=True)
class Initialisation:
    """One run of the server program that initialises an empty data directory.

    ``directories`` are created before, inside the data directory. ``stdin`` is fed to the program.
    ``init_file`` is the content of a file that only the server's user may read: its path replaces
    ``{init_file}`` in ``arguments``, and the file is removed after the run.
    """

    arguments: tuple[str, ...]
    directories: tuple[str, ...] = ()
    stdin: bytes = field(default=b"", repr=False)
    init_file: bytes | None = field(default=None, repr=False)


class Lifecycle(Protocol):
    """The creation of a server's data directory, and the start and stop of the server."""

    @property
    def stop_signal(self) -> signal.Signals:
        """The signal that requests a clean stop of the server process."""

    def socket_name(self, port: int) -> str:
        """Return the file name of the socket of a server with this port."""

    def pid_file(self, site: Site) -> Path:
        """Return the pid file, which the server writes just before it accepts sessions."""

    def initialisation(self, site: Site, options: Sequence[Option]) -> Initialisation:
        """Return the run that creates a data directory with ``Family.account`` as its only account.

        ``options`` are the configuration's ``init_options``.
        """

    def start_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments that start the server, without those for its options."""

    def valgrind_arguments(self, version: str) -> tuple[str, ...]:
        """Return further arguments that a version needs to start in valgrind."""

    def program_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments for every other run of the program."""


class LoadDialect(Protocol):
    """The statements and errors of the load generator's sessions.

    ``session``: statements at the beginning of each session, which set its time zone to UTC.
    ``no_read_timeout``: statements that make a server wait for the rows of a load while other
    servers have their turns. A client retries a transaction after ``retried_errors``, which another
    transaction caused. ``error_hints``: what the user can do about an error, by its code.
    """

    @property
    def session(self) -> tuple[str, ...]: ...
    @property
    def no_read_timeout(self) -> tuple[str, ...]: ...
    @property
    def retried_errors(self) -> tuple[str, ...]: ...
    @property
    def error_hints(self) -> Mapping[str, str]: ...

    def count(self, table: str) -> str:
        """Return the statement that counts the rows of a table."""

    def checksum(self, table: str, columns: Sequence[str], binary_columns: Collection[str]) -> str:
        """Return the statement that counts a table's rows and sums their checksums.

        The sum does not depend on the order of rows; the load generator computes the same. Text in
        ``binary_columns`` counts as bytes.
        """


@dataclass(frozen=True)
class LogPatterns:
    """The patterns by which millrace reads a family's error log."""

    error: re.Pattern[bytes]  # lines that report an error, unless no_error also matches
    no_error: re.Pattern[bytes]
    before_error: re.Pattern[str]  # the text before the message of an error
    before_words: re.Pattern[str]  # the text before the message of any line
    trouble: re.Pattern[bytes]  # errors after which a server cannot continue
    disk_full: re.Pattern[str]  # in errors and logs
    reasons: tuple[
        tuple[re.Pattern[bytes], str], ...
    ]  # meanings, with {port} and {socket}; the first match wins


@dataclass(frozen=True)
class Replacement:
    """Two options; a server that knows both ignores ``loser`` if ``winner`` is set."""

    winner: str
    loser: str


@dataclass(frozen=True)
class Successor:
    """An option ``by`` that replaces ``option`` in later servers.

    Its value is the old value times ``times``, and times the value of the option ``multiplied_by``
    (``otherwise`` if not set).
    """

    option: str
    by: str
    times: int = 1
    multiplied_by: str = ""
    otherwise: int = 1


@dataclass(frozen=True)
class FileOption:
    """An option in a file: its group in lower case, its name as written, and its line (from 1).

    ``value`` is None if the line has no ``=``.
    """

    group: str
    name: str
    value: str | None
    line: int


@dataclass(frozen=True)
class FileOptions:
    """The content of an option file; ``includes`` are the included files, by line."""

    options: tuple[FileOption, ...]
    includes: tuple[tuple[int, str], ...]
    mistakes: tuple[Diagnostic, ...]


@dataclass(frozen=True, kw_only=True)
class Options(Protocol):
    """A family's options: how they are spelt, named (with underscores), and what they affect.

    ``runtime_only``, ``needs_others`` and ``secrets`` may also be shell patterns.
    """

    administrative: frozenset[str]  # set by millrace: a configuration must not set them
    init_options: frozenset[str]  # also affect the layout of a data directory
    runtime_only: tuple[str, ...]  # do not affect the files of a stopped server
    replacements: tuple[Replacement, ...]
    successors: tuple[Successor, ...]
    file_groups: tuple[str, ...]  # of an option file; ``{series}`` is such as 8.0, 10.11
    own_files: frozenset[str]  # name a file that the server creates; without directory it is local
    memory: frozenset[str]  # set the size of a memory area
    needs_others: tuple[str, ...]  # work only in a cluster
    read_only: frozenset[str]  # make tables read-only
    needs: Mapping[
        str, Mapping[str, str]
    ]  # options (with values) that an option needs for the server to start
    secrets: tuple[str, ...]  # their values may be secrets
    listing_arguments: tuple[str, ...]  # arguments that make the program list its options
    value_refused: str  # in the log of a server that rejects a value

    def parse_file(self, text: str) -> FileOptions:
        """Return the content of an option file."""

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the options that a name may mean: itself, then the option that it switches."""

    def is_loose(self, name: str) -> bool:
        """Return whether the name's prefix makes a server ignore an unknown option."""

    def leads_away(self, name: str, value: str) -> bool:
        """Return whether the value makes the server use files outside of its own directories."""

    def arguments(self, options: Iterable[Option]) -> list[str]:
        """Return the options as arguments of the program."""

    def parse_listing(self, text: str) -> KnownOptions:
        """Return the options in the program's output for ``listing_arguments``."""

    def log_bytes(self, configuration: Configuration, version: str) -> int:
        """Return the size on disk of the write-ahead log, which does not depend on the data."""

    def keeps_binary_log(self, configuration: Configuration, version: str) -> bool:
        """Return whether the server keeps a log of changes, which grows with the data."""


@dataclass(frozen=True)
class TableSize:
    """A table's size as the server reports it; ``is_pooled``: its pages use the buffer pool."""

    name: str
    engine: str
    data_bytes: int
    index_bytes: int
    is_pooled: bool


class Administration(Protocol):
    """The statements that a trial needs. All methods raise TrialFailed."""

    def version(self, client: DatabaseClient) -> str:
        """Return the version that the server reports."""

    def identity(self, client: DatabaseClient) -> tuple[str, str]:
        """Return the version, and the text that identifies the server to ``Family.matches``."""

    def settings(self, client: DatabaseClient) -> dict[str, str]:
        """Return all current settings as the server shows them."""

    def data_directory(self, client: DatabaseClient) -> str:
        """Return the server's data directory."""

    def create_database(self, client: DatabaseClient, name: str, limit_s: float) -> None:
        """Create a database; fail if it exists."""

    def drop_database(self, client: DatabaseClient, name: str, limit_s: float) -> None:
        """Drop a database if it exists."""

    def first_rows(
        self, client: DatabaseClient, database: str, sql: str, most: int, limit_s: float
    ) -> list[tuple[str, ...]]:
        """Return the first ``most`` rows of a query, as text."""

    def analyze_tables(self, client: DatabaseClient, database: str, limit_s: float) -> None:
        """Refresh the statistics of all tables in a database."""

    def count_rows(self, client: DatabaseClient, database: str, limit_s: float) -> int:
        """Return the number of rows in all tables of a database; the server reads them all."""

    def table_sizes(self, client: DatabaseClient, database: str) -> tuple[TableSize, ...]:
        """Return the sizes of a database's tables, accurate to a few percent."""


class SelfTest(Protocol):
    """Checks that a server works; each returns a detail in words or raises TrialFailed."""

    def insert(self, client: DatabaseClient, database: str, limit_s: float) -> str:
        """Insert rows into a new table, and verify them."""

    def load_file(
        self, client: DatabaseClient, database: str, directory: Path, limit_s: float
    ) -> str:
        """Load rows from a file in ``directory`` on the server's side, and verify them."""

    def require_client_load(self, client: DatabaseClient) -> str:
        """Check that the server accepts LOAD DATA from a client."""


@dataclass(frozen=True)
class PoolStatus:
    """The buffer pool at one moment; reads and new pages count since the server's start.

    ``reads``: pages that a request waited for. ``read_ahead``: pages that were read before a
    request.
    """

    reads: int
    read_requests: int
    data_bytes: int
    total_bytes: int
    created_bytes: int = 0
    read_ahead: int = 0


@dataclass(frozen=True)
class PendingSample:
    """A sample of the pending work, whose content only the family interprets."""

    at_s: float  # since the beginning
    work: Any


@dataclass(frozen=True)
class StorageState:
    """The storage engine at a mark of the measurement; ``figures`` depend on the server."""

    pool: PoolStatus
    figures: Mapping[str, int]  # for the checks of the steady state


class Storage(Protocol):
    """The buffer pool, whose size is ``pool_option``, and the work that a server defers."""

    @property
    def engine(self) -> str:
        """The engine that this describes; other engines may defer more of a write's work."""

    @property
    def pool_option(self) -> str: ...

    @property
    def default_pool_bytes(self) -> int: ...

    def table_bytes(self, volume: Volume) -> int:
        """Return the approximate size of tables on disk."""

    def pool_status(self, client: DatabaseClient) -> PoolStatus:
        """Return the current state of the buffer pool. Raise TrialFailed."""

    def read_state(self, session: Session) -> StorageState:
        """Read the state at a mark, within a millisecond. Raise DatabaseError."""

    def state_afterwards(self, client: DatabaseClient, database: str) -> ServerStateFact:
        """Return what can be read after the measurement: log capacity, statistics, collations.

        Never raise.
        """

    def limits(self, settings: Mapping[str, str]) -> SteadyLimits:
        """Return the limits of a server with these effective settings."""

    def adaptive_index_reads(self, data_bytes: int, settings: Mapping[str, str]) -> int:
        """Return the number of row reads after which the server's adaptive index is complete.

        Return 0 if a server with these settings has no such index.
        """

    def pending(self, client: DatabaseClient) -> object:
        """Return the work that the server has deferred. Raise TrialFailed."""

    def unsettled(self, samples: Sequence[PendingSample]) -> tuple[str, ...]:
        """Return in words the work that still goes on, from the samples so far (oldest first).

        Return an empty tuple when the server has settled.
        """

    def forced_flushing(self, client: DatabaseClient) -> AbstractContextManager[Mapping[str, str]]:
        """Make a managed server do its deferred work in the block.

        Yield the changed settings with their original values.
        """


class SnapshotRules(Protocol):
    """The rules for keeping and restoring a data directory."""

    @property
    def excluded_files(self) -> tuple[str, ...]:
        """Shell patterns of top-level files that each start creates anew."""

    @property
    def link_suffixes(self) -> frozenset[str]:
        """The suffixes of files that contain a path outside of the data directory."""

    @property
    def volatile_engines(self) -> frozenset[str]:
        """The engines, in lower case, whose tables are empty after a restart."""

    def table_of(self, file: Path, database: str) -> str | None:
        """Return the table of a database whose rows are in a file of the data directory.

        Return an empty string for a file that several tables share, None for any other file.
        """

    def prepare(self, client: DatabaseClient) -> str | None:
        """Ensure that the next stop is a clean and complete one. Raise TrialFailed.

        Return the reason why the tables would not survive the stop; None if they do.
        """

    def record_tables(self, session: Session) -> tuple[KeptTable, ...]:
        """Read the tables by statements whose results a restored server must repeat.

        Raise DatabaseError, and ValueError for an unexpected answer.
        """

    def truncated_files(self, options: Iterable[Option]) -> Sequence[str]:
        """Return the files that are kept without their content."""


@dataclass(frozen=True)
class StoredSettings:
    """The settings of a server that may be stored and exported; others may be secrets.

    ``texts`` are names or patterns of settings whose text is known to be harmless. ``secret`` are
    those of settings in which even a number may be a password.
    """

    texts: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()

    def of(self, effective: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
        """Return the settings, with ``WITHHELD`` for values that may be secret.

        Values are kept for switches, other numbers, the known texts, and the settings that are the
        user's ``own``.
        """
        return {
            name: value if name in own or self._is_harmless(name, value) else WITHHELD
            for name, value in effective.items()
        }

    def _is_harmless(self, name: str, value: str) -> bool:
        if value.lower() in _SWITCHES or any(fnmatchcase(name, each) for each in self.texts):
            return True
        is_number = _NUMBER.fullmatch(value) is not None
        return is_number and not any(fnmatchcase(name, each) for each in self.secret)


@dataclass(frozen=True)
class Family:
    """A line of servers, with the capabilities by which millrace handles them."""

    name: str
    title: str
    identification: re.Pattern[str]  # in the text by which a server identifies itself
    host_variables: tuple[str, ...]  # settings that differ on every start: names or patterns
    stored_settings: StoredSettings
    scheme: str  # the URL scheme of an attached server
    port: int  # the default port of an attached server
    account: str  # the account that initialisation creates
    programs: tuple[str, ...]  # names of the server processes
    has_process_per_session: bool  # the first program starts them
    connect: Connect
    packaging: Packaging
    lifecycle: Lifecycle
    log: LogPatterns
    options: Options
    administration: Administration
    load_dialect: LoadDialect
    self_test: SelfTest
    storage: Storage
    table_formats: TableFormats
    snapshots: SnapshotRules
    monitoring: Monitoring
    replication: Replication | None = None

    def matches(self, identity: str) -> bool:
        """Return whether a server that identifies itself by this text is of the family."""
        return self.identification.search(identity) is not None


def version_key(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, for comparisons: (8, 0, 0) for ``8.0.0-dmr``."""
    return tuple(map(int, re.findall("[0-9]+", re.sub(r"[^0-9.].*", "", version, flags=re.S))))


class ServerClient(DatabaseClient):
    """A client of a server of a known family, managed or attached."""

    def __init__(self, server: Server, family: Family, address: Address) -> None:
        super().__init__(server, family.connect, address)
        self.family = family

    def version(self) -> str:
        """Return the version that the server reports, on one line."""
        return shown_line(self.family.administration.version(self))

    def settings(self) -> dict[str, str]:
        """Return all current settings as the server shows them.

        Store or print only what ``Family.stored_settings`` lets through.
        """
        return self.family.administration.settings(self)
