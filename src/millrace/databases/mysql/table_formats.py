"""Resolve and verify the table formats of MySQL and MariaDB.

InnoDB has two ways of compression. *Row* formats store each page in a block of 1 to 8 kB, also in
the buffer pool (ROW_FORMAT=COMPRESSED). Compressed *pages* (MySQL: COMPRESSION, MariaDB:
PAGE_COMPRESSED) keep their places in the file, and the file system frees what they do not need.

A server without it, or on a file system without holes, makes plain tables with a warning at most.
So a trial makes a table beforehand, requires that no warning came, and looks at its file.
"""

# ruff: noqa: S608 - all names in statements are our own

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from millrace.databases.base import version_key
from millrace.databases.client import DatabaseClient, Session
from millrace.databases.mysql.administration import global_variables
from millrace.databases.mysql.client import own_session
from millrace.databases.mysql.query import Data
from millrace.databases.table_formats import TableBytes, TableFormat
from millrace.errors import DatabaseError, TrialFailed, UserError
from millrace.quantities import readable_size
from millrace.shown_text import shown_line
from millrace.workloads.defaults import UNCOMPRESSED

_COMPRESSED_ENGINE = "innodb"
_PAGE = "page-"
_TABLE = "millrace_probe"
_TEXT = "millrace " * 28
_DOUBLINGS = 12
# Of the rows' bytes; such rows compress to a tenth, and a page to a block of the file system.
_LEAST_SAVED = 0.25


class StartOptions(Data):
    """Options for compressed tables that servers of some versions are started with."""

    since: str = "0"
    below: str | None = None
    levels: tuple[str, ...] = ()  # of these only; else of all servers of the experiment
    options: dict[str, str]

    def holds(self, version: str | None) -> bool:
        """Return whether servers of a version need them; None stands for the newest."""
        if version is None:
            return self.below is None
        key = version_key(version)
        return version_key(self.since) <= key and (
            self.below is None or key < version_key(self.below)
        )


class PluginEngine(Data):
    """An engine that a server has to load: see ``TableFormat`` for what else it needs."""

    name: str
    options: dict[str, str]
    settings: tuple[str, ...]
    before_stop: tuple[str, ...]


@dataclass(frozen=True)
class MysqlTableFormats:
    """The formats of a family: see ``databases.table_formats.TableFormats``."""

    title: str
    levels: Mapping[str, str]  # options of CREATE TABLE by level
    page_since: str
    preallocates: bool  # the blocks of a file, and frees them later; else writes only what it needs
    starts: tuple[StartOptions, ...]
    engines: Mapping[str, PluginEngine]

    def resolve(self, engine: str | None, compression: str, version: str | None) -> TableFormat:
        if compression == UNCOMPRESSED:
            plugin = self.engines.get((engine or "").lower())
            if plugin is None:
                return TableFormat(engine)
            return TableFormat(
                engine,
                server_options=plugin.options,
                settings=plugin.settings,
                before_stop=plugin.before_stop,
            )
        if engine is not None and engine.lower() != _COMPRESSED_ENGINE:
            raise UserError(
                f"compression '{compression}' is one of InnoDB's, and the engine is {engine}",
                hint=f"engine = ['InnoDB'], or compression = ['{UNCOMPRESSED}']",
            )
        punches_holes = compression.startswith(_PAGE)
        is_older = version is not None and version_key(version) < version_key(self.page_since)
        if punches_holes and is_older:
            raise UserError(
                f"{self.title} {version} has no compression '{compression}', which came with "
                f"{self.page_since}",
                hint="compression 'row' is older",
            )
        sql = self.levels[compression]
        options = {
            name: value
            for start in self.starts
            if compression in start.levels and start.holds(version)
            for name, value in start.options.items()
        }
        return TableFormat(engine, compression, sql, options, punches_holes)

    def comparable_options(self, version: str | None) -> Mapping[str, str]:
        return {
            name: value
            for start in self.starts
            if not start.levels and start.holds(version)
            for name, value in start.options.items()
        }

    def verify(
        self,
        client: DatabaseClient,
        database: str,
        table_format: TableFormat,
        table_bytes: TableBytes | None,
    ) -> None:
        server = client.server.name
        try:
            with own_session(client, database) as session:
                if table_format.engine is not None:
                    _require_engine(session, server, table_format.engine)
                for setting in table_format.settings:
                    session.query(setting)
                if table_format.compression != UNCOMPRESSED:
                    self._require_settings(client, table_format.compression)
                    self._require_compression(session, server, table_format, table_bytes)
        except DatabaseError as error:
            raise TrialFailed(f"{server}: {error.message}") from error

    def _require_settings(self, client: DatabaseClient, compression: str) -> None:
        """Raise TrialFailed where a server compresses in another way, which tables do not say."""
        wanted = self.resolve(None, compression, None).server_options
        settings = global_variables(client) if wanted else {}
        for name in sorted(wanted.keys() & settings.keys()):
            if settings[name].lower() != wanted[name]:
                raise TrialFailed(
                    f"{client.server.name} has {name} = {shown_line(settings[name])[:80]}, and "
                    f"compression '{compression}' is {name} = {wanted[name]}",
                    hint="set it on the server, or choose the compression that the server has",
                )

    def _require_compression(
        self, session: Session, server: str, wanted: TableFormat, table_bytes: TableBytes | None
    ) -> None:
        session.query("SET SESSION innodb_strict_mode = ON")
        try:
            _create(session, server, wanted)
            _require_definition(session, server, wanted)
            if wanted.punches_holes and table_bytes is not None:
                self._require_holes(session, server, wanted, table_bytes)
        finally:
            with contextlib.suppress(DatabaseError):
                session.query(f"DROP TABLE IF EXISTS {_TABLE}")

    def _require_holes(
        self, session: Session, server: str, wanted: TableFormat, table_bytes: TableBytes
    ) -> None:
        """Raise TrialFailed where well compressible rows did not make holes in the file."""
        data_bytes = _fill(session)
        files = table_bytes(_TABLE)
        full_bytes = files.apparent if self.preallocates else data_bytes
        if full_bytes - files.allocated < _LEAST_SAVED * data_bytes:
            raise TrialFailed(
                f"{server} frees nothing with compression '{wanted.compression}': "
                f"{readable_size(data_bytes)} of the same text take "
                f"{readable_size(files.allocated)} on the disk, in a file of "
                f"{readable_size(files.apparent)}",
                hint="the build cannot punch holes, or pages are not larger than a block of the "
                "file system",
            )


def _words(table_format: TableFormat) -> str:
    return f"tables with compression '{table_format.compression}' ({table_format.sql})"


def _require_engine(session: Session, server: str, engine: str) -> None:
    """Raise TrialFailed where the server lacks an engine: some would then use another one."""
    rows = session.query("SELECT engine, support FROM information_schema.engines")
    there = sorted(str(name) for name, support in rows if str(support) in ("YES", "DEFAULT"))
    if engine.lower() not in map(str.lower, there):
        raise TrialFailed(
            f"{server} has no engine {shown_line(engine)}; it has {shown_line(', '.join(there))}"
        )


def _create(session: Session, server: str, wanted: TableFormat) -> None:
    """Make the table. Raise TrialFailed for a warning, and for an error with what explains it."""
    try:
        session.query(
            f"CREATE TABLE {_TABLE} (id INT NOT NULL PRIMARY KEY, t VARCHAR(255) NOT NULL) "
            f"ENGINE=InnoDB {wanted.sql}"
        )
    except DatabaseError as error:
        if error.kind in ("lost", "unreachable"):
            raise
    # After an error, they say why; one of them is the error.
    said = [str(row[2]) for row in session.query("SHOW WARNINGS") if row[0] != "Note"]
    if said:
        raise TrialFailed(f"{server} does not make {_words(wanted)}: {shown_line('; '.join(said))}")


def _require_definition(session: Session, server: str, wanted: TableFormat) -> None:
    """Raise TrialFailed unless the server itself describes the table as it was asked for."""
    definition = str(session.query(f"SHOW CREATE TABLE {_TABLE}")[0][1])
    ((row_format,),) = session.query(
        "SELECT row_format FROM information_schema.tables "
        f"WHERE table_schema = DATABASE() AND table_name = '{_TABLE}'"
    )
    asked = wanted.sql.partition("=")[0]
    is_compressed = wanted.punches_holes or str(row_format).lower() == "compressed"
    if asked not in definition or not is_compressed:
        raise TrialFailed(
            f"{server} makes other tables than {_words(wanted)}: "
            f"{shown_line(definition.rpartition(')')[2].strip())}, row format "
            f"{shown_line(str(row_format))}"
        )


def _fill(session: Session) -> int:
    """Fill the table with rows that compress well, and write it to the disk; return their bytes."""
    session.query(f"INSERT INTO {_TABLE} VALUES (0, %s)", _TEXT)
    for doubling in range(_DOUBLINGS):
        session.query(f"INSERT INTO {_TABLE} SELECT id + {1 << doubling}, t FROM {_TABLE}")
    session.query(f"FLUSH TABLES {_TABLE} FOR EXPORT")
    session.query("UNLOCK TABLES")
    return len(_TEXT) << _DOUBLINGS
