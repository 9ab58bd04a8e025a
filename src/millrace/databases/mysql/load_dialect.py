"""Write the load generator's statements for MySQL and MariaDB."""

# ruff: noqa: S608 - names of tables are our own

from __future__ import annotations

from collections.abc import Collection, Sequence


class MysqlLoadDialect:
    """The SQL of MySQL and MariaDB: see ``databases.load_dialect.LoadDialect``."""

    session = ("SET time_zone = '+00:00'",)

    # A deadlock, a lock wait timeout, and a row changed since it was read; sysbench retries these.
    retried_errors = (1213, 1205, 1020)

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
