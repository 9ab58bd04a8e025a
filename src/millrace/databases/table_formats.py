"""Define how a family creates the tables of a trial: their engine and compression."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from millrace.databases.client import DatabaseClient
from millrace.workloads.defaults import UNCOMPRESSED


@dataclass(frozen=True)
class FileBytes:
    """The bytes of files: apparent size, and allocated on disk (without holes)."""

    apparent: int = 0
    allocated: int = 0


TableBytes = Callable[[str], FileBytes]
"""Return the bytes of a table's files."""


@dataclass(frozen=True)
class TableFormat:
    """The engine and compression of a trial's tables.

    ``sql`` are options of CREATE TABLE after the engine, ``server_options`` those of a server. The
    statements ``settings`` run before the tables are created, and ``before_stop`` before the server
    stops, so that its files are complete. ``punches_holes``: files get holes where pages shrink.
    ``unavailable``: why the server does not support the format; its trials fail at once.
    """

    engine: str | None = None  # None: as in the statements
    compression: str = UNCOMPRESSED
    sql: str = ""
    server_options: Mapping[str, str] = field(default_factory=dict)
    punches_holes: bool = False
    unavailable: str | None = None
    settings: tuple[str, ...] = ()
    before_stop: tuple[str, ...] = ()


class TableFormats(Protocol):
    """A family's engines and compression methods for tables."""

    def resolve(self, engine: str | None, compression: str, version: str | None) -> TableFormat:
        """Return the table format on a server of this version (None: unknown version).

        Raise UserError if these servers are known not to support it.
        """

    def comparable_options(self, version: str | None) -> Mapping[str, str]:
        """Return the options for all servers of an experiment that has compressed tables.

        Servers with plain tables get them too, so that only the compression differs.
        """

    def verify(
        self,
        client: DatabaseClient,
        database: str,
        table_format: TableFormat,
        table_bytes: TableBytes | None,
    ) -> None:
        """Create a table of this format, and drop it. Raise TrialFailed unless it has the format.

        ``table_bytes`` is None if the files are not on this host.
        """
