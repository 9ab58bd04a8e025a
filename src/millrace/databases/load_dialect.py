"""Define what the load generator needs to know of a family's SQL."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class LoadDialect(Protocol):
    """The statements and errors of the load generator's sessions."""

    @property
    def session(self) -> tuple[str, ...]: ...  # statements at its beginning; times are UTC then
    @property
    def retried_errors(self) -> tuple[int, ...]: ...  # that another transaction caused
    @property
    def error_hints(self) -> Mapping[int, str]: ...  # what the user can do, by code

    def count(self, table: str) -> str:
        """Return the statement that counts the rows of a table."""

    def checksum(self, table: str, columns: Sequence[str], binary_columns: Collection[str]) -> str:
        """Return the statement that counts a table's rows and adds up their checksums.

        The checksum does not depend on the order of rows, and is the load generator's own. Text in
        ``binary_columns`` counts as bytes.
        """
