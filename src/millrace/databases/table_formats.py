"""Define how a family makes the tables of a trial: their engine, compressed or not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from millrace.databases.client import DatabaseClient

COMPRESSION = "compression"
"""The factor whose levels are how tables are compressed."""

UNCOMPRESSED = "none"
"""The level of tables that are not compressed, which every family has."""


@dataclass(frozen=True)
class FileBytes:
    """The bytes of files: their lengths, and what they take on the disk, without holes."""

    apparent: int = 0
    allocated: int = 0


TableBytes = Callable[[str], FileBytes]
"""Return the bytes of a table's files."""


@dataclass(frozen=True)
class TableFormat:
    """The engine and compression of a trial's tables.

    ``sql`` is what CREATE TABLE says for it after the engine; ``server_options`` are those that a
    server needs for it, ``settings`` statements before the tables are made, ``before_stop`` those
    after which its files are complete. ``punches_holes`` is whether files get holes where pages
    became shorter. ``unavailable`` is why the server cannot have it: its trials fail at once.
    """

    engine: str | None = None  # None: whatever the statements say
    compression: str = UNCOMPRESSED
    sql: str = ""
    server_options: Mapping[str, str] = field(default_factory=dict)
    punches_holes: bool = False
    unavailable: str | None = None
    settings: tuple[str, ...] = ()
    before_stop: tuple[str, ...] = ()


class TableFormats(Protocol):
    """A family's engines and ways of compressing tables."""

    def resolve(self, engine: str | None, compression: str, version: str | None) -> TableFormat:
        """Return the format of tables on a server of a version, None for an unknown one.

        Raise UserError where such servers are known to lack it.
        """

    def comparable_options(self, version: str | None) -> Mapping[str, str]:
        """Return the options of all servers of an experiment with compressed tables.

        Those with plain tables get them too, so that only the compression differs.
        """

    def verify(
        self,
        client: DatabaseClient,
        database: str,
        table_format: TableFormat,
        table_bytes: TableBytes | None,
    ) -> None:
        """Make a table of this format for a moment. Raise TrialFailed unless it is what it says.

        ``table_bytes`` is None where the files are not on this host.
        """
