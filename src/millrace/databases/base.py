"""What a family of databases offers to the rest of millrace: a record of small protocols.

A family is a line of servers that are initialised, started, queried and observed in the same way
(MySQL, MariaDB; PostgreSQL). No other room names one, sends it SQL or knows its options: it asks
the capability of the family that the server belongs to. A capability does no more than its
protocol says; how long something may take and what to do when it fails is up to the caller.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from millrace.model.servers import Configuration, InstalledServer, KnownOptions, Option

if TYPE_CHECKING:
    from millrace.databases.client import Address, ServerClient, Session
    from millrace.databases.monitoring import Monitoring
    from millrace.databases.packaging import Packaging
    from millrace.databases.table_checks import KeptTable


@dataclass(frozen=True)
class Site:
    """Where one instance lives, as its family needs to know it to write a command line.

    The server's user owns ``data_dir``, ``tmp_dir`` and ``run_dir`` (socket and pid file).
    ``user_argument`` is the user to name where the server must run as root; ``password`` is the one
    of every account. The server listens at ``port`` where ``by_tcp``.
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


@dataclass(frozen=True)
class Initialisation:
    """One run of the server program that turns an empty data directory into a usable one.

    ``directories`` are made beforehand inside the data directory; ``stdin`` is fed to the program;
    ``init_file`` is the content of a file that only the server's user may read, whose path replaces
    ``{init_file}`` in ``arguments``, and which is removed after the run.
    """

    arguments: tuple[str, ...]
    directories: tuple[str, ...] = ()
    stdin: bytes = field(default=b"", repr=False)
    init_file: bytes | None = field(default=None, repr=False)


class Lifecycle(Protocol):
    """How a server's data directory is made, and how the server is started and stopped."""

    @property
    def stop_signal(self) -> signal.Signals:
        """The signal to the server's process that asks for a clean stop."""

    def socket_name(self, port: int) -> str:
        """Return the name of the socket of a server with this port."""

    def pid_file(self, site: Site) -> Path:
        """Return where the server writes its process number, just before it takes connections."""

    def initialisation(self, site: Site, options: Sequence[Option]) -> Initialisation:
        """Return the run that makes a data directory whose only account is the address's.
        ``options`` are those that shape it."""

    def start_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments that start the server, without those of its options."""

    def program_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments of every other run of the program."""


@dataclass(frozen=True)
class LogPatterns:
    """How a family's error log is read.

    ``error`` matches lines that tell of an error, unless ``no_error`` does; ``before_error`` and
    ``before_words`` are what comes before the words of an error or of any line; ``trouble`` matches
    what a server cannot go on after; ``reasons`` are patterns with what they mean (``{port}`` and
    ``{socket}`` are replaced), the first match counts.
    """

    error: re.Pattern[bytes]
    no_error: re.Pattern[bytes]
    before_error: re.Pattern[str]
    before_words: re.Pattern[str]
    trouble: re.Pattern[bytes]
    reasons: tuple[tuple[re.Pattern[bytes], str], ...]


@dataclass(frozen=True)
class Replacement:
    """Where a server has both options, ``winner`` makes it ignore ``loser``."""

    winner: str
    loser: str


class Options(Protocol):
    """How a family's options are spelt, which of them there are, and what they imply.

    Names have underscores. ``administrative`` options belong to millrace: a configuration must not
    set them. ``shaping`` ones also decide how a data directory is laid out; ``runtime_only`` ones,
    names or shell patterns, leave no trace in the files of a server that was stopped cleanly.
    ``listing_arguments`` make the program list its options; ``value_refused`` stands in the log of
    one that refuses a value.
    """

    @property
    def administrative(self) -> frozenset[str]: ...
    @property
    def shaping(self) -> frozenset[str]: ...
    @property
    def runtime_only(self) -> tuple[str, ...]: ...
    @property
    def replacements(self) -> tuple[Replacement, ...]: ...
    @property
    def listing_arguments(self) -> tuple[str, ...]: ...
    @property
    def value_refused(self) -> str: ...

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the options that a name may be about: itself first, then what it switches."""

    def is_loose(self, name: str) -> bool:
        """Return whether the server is asked to ignore the option if it does not know it."""

    def arguments(self, options: Iterable[Option]) -> list[str]:
        """Return the options as arguments of the program."""

    def parse_listing(self, text: str) -> KnownOptions:
        """Return the options in what the program prints with ``listing_arguments``."""

    def log_bytes(self, configuration: Configuration, version: str) -> int:
        """Return the size of the write-ahead log on disk, whatever the data."""

    def keeps_binary_log(self, configuration: Configuration, version: str) -> bool:
        """Return whether the server keeps a log of changes that grows with the data."""


class Connect(Protocol):
    """Opens a session with autocommit and UTC."""

    def __call__(
        self,
        address: Address,
        database: str | None,
        limit_s: float | None,
        *,
        as_text: bool = False,
    ) -> Session:
        """Open a session; the caller closes it. ``limit_s`` bounds each wait for an answer; with
        ``as_text`` every value comes as text. Raises DatabaseError."""


@dataclass(frozen=True)
class TableSize:
    """A table as the server accounts for it; ``is_pooled`` says whether it goes through the buffer
    pool."""

    name: str
    engine: str
    data_bytes: int
    index_bytes: int
    is_pooled: bool


class Administration(Protocol):
    """The statements that a trial needs. All raise TrialFailed."""

    def version(self, client: ServerClient) -> str:
        """Return the version as the server itself gives it."""

    def identity(self, client: ServerClient) -> tuple[str, str]:
        """Return the version, and a text that ``Family.recognises`` judges."""

    def settings(self, client: ServerClient) -> dict[str, str]:
        """Return every setting in force and its value, as the server shows them."""

    def data_directory(self, client: ServerClient) -> str:
        """Return the data directory that the server works in."""

    def create_database(self, client: ServerClient, name: str, limit_s: float) -> None:
        """Create a database; it is an error if there is one of that name."""

    def drop_database(self, client: ServerClient, name: str, limit_s: float) -> None:
        """Drop a database, if there is one of that name."""

    def analyze_tables(self, client: ServerClient, database: str, limit_s: float) -> None:
        """Have the server refresh the statistics of all tables of a database."""

    def table_sizes(self, client: ServerClient, database: str) -> tuple[TableSize, ...]:
        """Return the sizes of a database's tables, right to a few percent."""


class SelfTest(Protocol):
    """What shows that a server works. All return a detail in words and raise TrialFailed."""

    def insert(self, client: ServerClient, database: str, limit_s: float) -> str:
        """Insert rows into a fresh table, and verify them."""

    def load_file(
        self, client: ServerClient, database: str, directory: Path, limit_s: float
    ) -> str:
        """Have the server load rows from a file in ``directory``, and verify them."""

    def require_client_load(self, client: ServerClient) -> str:
        """Require that the server takes rows that a client streams from a file."""


@dataclass(frozen=True)
class PoolStatus:
    """The buffer pool at a moment. The first two count since the server's start."""

    reads: int
    read_requests: int
    data_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class PendingWork:
    """What a server says it still has to do; None where its version does not say.

    ``history`` counts what purge has not removed yet. ``checkpoint`` is the position of the log up
    to which all pages are written back.
    """

    dirty_pages: int | None = None
    history: int | None = None
    change_buffer_pages: int | None = None
    log_position: int | None = None
    purged: bool | None = None
    checkpoint: int | None = None


@dataclass(frozen=True)
class PendingSample:
    """Pending work at a moment, in seconds from the beginning."""

    at_s: float
    work: PendingWork


@dataclass(frozen=True)
class StorageCounters:
    """The storage engine at a mark of the measurement; ``state`` is what its steady state is judged
    by: named counts, of which a server that does not tell leaves some out."""

    pool: PoolStatus
    state: Mapping[str, int]


class Storage(Protocol):
    """The buffer pool, and the work that a server puts off.

    ``pool_option`` is the option that sizes the buffer pool.
    """

    @property
    def pool_option(self) -> str: ...

    def pool_status(self, client: ServerClient) -> PoolStatus:
        """Return the buffer pool now. Raises TrialFailed."""

    def counters(self, session: Session) -> StorageCounters:
        """Read counters at a mark, in a millisecond. Raises DatabaseError."""

    def state_afterwards(self, client: ServerClient, database: str) -> dict[str, Any]:
        """Return what of the state can be read when clients are no longer measured:
        ``log_capacity_bytes``, and ``statistics`` with the age in seconds and the rows of each
        table that has them. Never raises."""

    def pending(self, client: ServerClient) -> PendingWork:
        """Return what the server has put off. Raises TrialFailed."""

    def unsettled(self, samples: Sequence[PendingSample]) -> tuple[str, ...]:
        """Return what still goes on, in words, by the samples so far, the oldest first; empty when
        nothing does."""

    def forced_flushing(self, client: ServerClient) -> AbstractContextManager[Mapping[str, str]]:
        """Make a managed server do at once what it puts off, inside the block; gives the settings
        that were changed, with what they were and are again afterwards."""


class SnapshotRules(Protocol):
    """What a data directory must be like to be kept and restored.

    ``left_out`` are shell patterns of files at its top that each start makes anew.
    """

    @property
    def left_out(self) -> tuple[str, ...]: ...

    def prepare(self, client: ServerClient) -> str | None:
        """Make the next stop a clean and complete one. Returns why the tables would not survive
        it, None where they do. Raises TrialFailed."""

    def record_tables(self, session: Session) -> tuple[KeptTable, ...]:
        """Read the tables by statements whose answers a restored server must repeat. Raises
        DatabaseError, and ValueError for an odd answer."""

    def emptied(self, options: Iterable[Option]) -> Sequence[str]:
        """Return the files that are kept without their content."""

    def leads_away(self, options: Iterable[Option]) -> Option | None:
        """Return an option that puts files outside of the data directory; None without one."""


@dataclass(frozen=True)
class Family:
    """A line of servers, and what is special about it.

    ``says`` is found in what a server of the family says of itself. ``host_variables`` are names or
    shell patterns of settings that differ on every start (paths, ports, host names) and say nothing
    about the server. ``scheme`` begins the address of a server that somebody else runs; it listens
    at ``port`` unless the address says otherwise. ``account`` is the account that initialisation
    leaves. ``programs`` are the names of its server processes; where
    ``has_process_per_session``, the first one starts another for each session.
    """

    name: str
    title: str
    says: re.Pattern[str]
    host_variables: tuple[str, ...]
    scheme: str
    port: int
    account: str
    programs: tuple[str, ...]
    has_process_per_session: bool
    connect: Connect
    packaging: Packaging
    lifecycle: Lifecycle
    log: LogPatterns
    options: Options
    administration: Administration
    self_test: SelfTest
    storage: Storage
    snapshots: SnapshotRules
    monitoring: Monitoring

    def recognises(self, said: str) -> bool:
        """Return whether a server that says ``said`` of itself is one of the family."""
        return self.says.search(said) is not None


def option_name(name: str) -> str:
    """Return an option's name in millrace's spelling: underscores, lower case."""
    return name.replace("-", "_").lower()


def version_key(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, for comparison: ``8.0.0-dmr`` is (8, 0, 0)."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = ""
        for character in part:
            if not character.isascii() or not character.isdigit():
                break
            digits += character
        if digits:
            numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
