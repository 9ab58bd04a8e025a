"""Define what the load generator needs to know of a family's SQL."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class LoadDialect(Protocol):
    """The statements and errors of the load generator's sessions.

    ``session`` are the statements that begin each session, after which times are UTC;
    ``no_read_timeout`` are those after which a server waits for the rows of a load however long
    the turns of others take. A client repeats a transaction after ``retried_errors``, which another
    transaction caused. ``error_hints`` are what the user can do about an error, by its code.
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
        """Return the statement that counts a table's rows and adds up their checksums.

        The checksum does not depend on the order of rows, and is the load generator's own. Text in
        ``binary_columns`` counts as bytes.
        """
