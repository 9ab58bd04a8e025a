"""Write the statements of trials and of the load generator for MySQL and MariaDB."""

# ruff: noqa: S608 - names of databases and tables are our own, or quoted

import contextlib
from collections.abc import Collection, Sequence
from pathlib import Path
from types import MappingProxyType

from millrace.databases.base import TableSize
from millrace.databases.client import DatabaseClient, Session, count_of
from millrace.databases.mysql.client import oddities_as_errors, own_session
from millrace.errors import DatabaseError, TrialFailed

_POOLED = "innodb"
_SELF_TEST_ROWS = 1000
_LOCAL_INFILE_OFF = "off there; SET GLOBAL local_infile=1 would allow it"


def global_variables(client: DatabaseClient) -> dict[str, str]:
    """Return every global variable with its value. Raise TrialFailed where there are none."""
    sql = "SHOW GLOBAL VARIABLES"
    rows = client.rows(sql, n_columns=2)
    if not rows:
        raise TrialFailed(f"{client.server.name}: {sql}: expected rows of 2 columns")
    return {(name or "").lower(): value or "" for name, value in rows}


class MysqlAdministration:
    """The statements for MySQL and MariaDB: see ``databases.base.Administration``."""

    def version(self, client: DatabaseClient) -> str:
        return client.one_row("SELECT VERSION()", n_columns=1)[0] or ""

    def identity(self, client: DatabaseClient) -> tuple[str, str]:
        version, comment = client.one_row("SELECT VERSION(), @@version_comment", n_columns=2)
        return version or "", f"{version} {comment}"

    def settings(self, client: DatabaseClient) -> dict[str, str]:
        return global_variables(client)

    def data_directory(self, client: DatabaseClient) -> str:
        return client.one_row("SELECT @@datadir", n_columns=1)[0] or ""

    def create_database(self, client: DatabaseClient, name: str, limit_s: float) -> None:
        client.query(f"CREATE DATABASE {name}", limit_s=limit_s)

    def drop_database(self, client: DatabaseClient, name: str, limit_s: float) -> None:
        client.query(f"DROP DATABASE IF EXISTS {name}", limit_s=limit_s)

    def first_rows(
        self, client: DatabaseClient, database: str, sql: str, most: int, limit_s: float
    ) -> list[tuple[str, ...]]:
        try:
            with (
                oddities_as_errors(),
                contextlib.closing(client.connect(database, limit_s=limit_s)) as session,
            ):
                rows = session.query(f"{sql} LIMIT {most}")
                return [tuple(map(str, row)) for row in rows]
        except DatabaseError as error:
            raise TrialFailed(f"{client.server.name}: {error.message}", hint=error.hint) from error

    def analyze_tables(self, client: DatabaseClient, database: str, limit_s: float) -> None:
        tables = client.rows(f"SHOW TABLES FROM {database}", n_columns=1, limit_s=limit_s)
        listed = ", ".join(f"`{database}`.`{name}`" for (name,) in tables)
        if listed:
            client.query(f"ANALYZE TABLE {listed}", limit_s=limit_s)

    def count_rows(self, client: DatabaseClient, database: str, limit_s: float) -> int:
        tables = client.rows(f"SHOW TABLES FROM {database}", n_columns=1, limit_s=limit_s)
        rows = 0
        for (name,) in tables:
            sql = f"SELECT count(*) FROM `{database}`.`{name}`"
            ((counted,),) = client.rows(sql, n_columns=1, limit_s=limit_s)
            rows += client.count(sql, counted)
        return rows

    def table_sizes(self, client: DatabaseClient, database: str) -> tuple[TableSize, ...]:
        """Return the tables' sizes, those of InnoDB by the statistics of analysed tables.

        They are accurate to a few percent where the tables were analysed after they were loaded.
        """
        try:
            with own_session(client) as session:
                # MySQL 8 answers from a copy that may be a day old, unless this variable is 0.
                if session.query("SHOW VARIABLES LIKE 'information_schema_stats_expiry'"):
                    session.query("SET SESSION information_schema_stats_expiry = 0")
                rows = session.query(
                    "SELECT table_name, engine, data_length, index_length "
                    "FROM information_schema.tables "
                    "WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY table_name",
                    database,
                )
                return tuple(
                    TableSize(
                        name=str(name),
                        engine=str(engine),
                        data_bytes=count_of(data or 0),
                        index_bytes=count_of(index or 0),
                        is_pooled=str(engine).lower() == _POOLED,
                    )
                    for name, engine, data, index in rows
                )
        except DatabaseError as error:
            raise TrialFailed(
                f"{client.server.name}: the sizes of its tables cannot be read: {error.message}"
            ) from error


class MysqlLoadDialect:
    """The SQL of MySQL and MariaDB: see ``databases.base.LoadDialect``."""

    session = ("SET time_zone = '+00:00'",)
    no_read_timeout = ("SET net_read_timeout = 86400",)

    # A deadlock, a lock wait timeout, and a row changed since it was read; sysbench retries these.
    retried_errors = ("1213", "1205", "1020")

    # The errors of LOAD DATA LOCAL: of older servers of both families, of newer MySQL and MariaDB.
    error_hints = MappingProxyType(
        dict.fromkeys(("1148", "3948", "4166"), f"local_infile is {_LOCAL_INFILE_OFF}")
    )

    def count(self, table: str) -> str:
        return f"SELECT count(*) FROM {table}"

    def checksum(self, table: str, columns: Sequence[str], binary_columns: Collection[str]) -> str:
        """Return a checksum that is the same in every version, whatever the table's character set.

        CHECKSUM TABLE is not portable; the sum of the rows' CRC32 is, when numbers and times are
        compared as text in a UTC session and text as bytes.
        """
        listed = ", ".join(
            f"CAST({column} AS BINARY)" if column in binary_columns else column
            for column in columns
        )
        return f"SELECT count(*), sum(crc32(concat_ws('\\t', {listed}))) FROM {table}"


class MysqlSelfTest:
    """The checks of MySQL and MariaDB: see ``databases.base.SelfTest``."""

    def insert(self, client: DatabaseClient, database: str, limit_s: float) -> str:
        """Insert by one statement, without a file: a server could ask for another one."""
        rows = ", ".join(f"({i}, '{name}')" for i, name in _rows())
        return _fill(client, database, f"INSERT INTO t VALUES {rows}", limit_s)

    def load_file(
        self, client: DatabaseClient, database: str, directory: Path, limit_s: float
    ) -> str:
        file = directory / "rows.tsv"
        file.write_text("".join(f"{i}\t{name}\n" for i, name in _rows()), encoding="utf-8")
        file.chmod(0o644)  # LOAD DATA without LOCAL takes only what everybody may read
        sql = f"LOAD DATA INFILE '{file}' INTO TABLE t CHARACTER SET utf8"
        return _fill(client, database, sql, limit_s)

    def require_client_load(self, client: DatabaseClient) -> str:
        (value,) = client.one_row("SELECT @@GLOBAL.local_infile", n_columns=1)
        if value == "0":
            raise TrialFailed(f"it is {_LOCAL_INFILE_OFF}")
        return ""


def _rows() -> list[tuple[int, str]]:
    return [(i, f"name {i} µ") for i in range(_SELF_TEST_ROWS)]


def _fill(client: DatabaseClient, database: str, sql: str, limit_s: float) -> str:
    """Fill a fresh InnoDB table by a statement, and verify the count and sum of its rows."""
    try:
        with contextlib.closing(client.connect(database, limit_s=limit_s)) as session:
            arrived = _filled(session, sql)
    except DatabaseError as error:
        raise TrialFailed(error.message, hint=error.hint) from error
    expected = (_SELF_TEST_ROWS, _SELF_TEST_ROWS * (_SELF_TEST_ROWS - 1) // 2)
    if [tuple(map(str, row)) for row in arrived] != [tuple(map(str, expected))]:
        raise TrialFailed(
            f"{client.server.name}: expected (rows, sum) {expected}, got {arrived[:1]}"
        )
    return f"{_SELF_TEST_ROWS} rows"


def _filled(session: Session, sql: str) -> list[tuple[object, ...]]:
    session.query("DROP TABLE IF EXISTS t")
    session.query("CREATE TABLE t (id int PRIMARY KEY, name varchar(40)) ENGINE=InnoDB")
    session.query(sql)
    return session.query("SELECT count(*), sum(id) FROM t")
