"""Define the checks of a snapshot's tables: statements, and their expected results."""

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.databases.client import Session
from millrace.model.documents import exact


@dataclass(frozen=True)
class Reading:
    """The number of rows that some statements found, and the sum of the rows' CRC-32.

    Each statement returns one row with both. The sum is 0 if the statements only count.
    """

    statements: tuple[str, ...]
    rows: int
    checksum: int


@exact
@dataclass(frozen=True)
class KeptTable:
    """A table of a snapshot.

    ``whole`` reads all its rows; None if there are too many.
    """

    name: str
    sample: Reading
    whole: Reading | None


def read(session: Session, statements: Sequence[str]) -> Reading:
    """Read a table with some statements.

    Raise DatabaseError, and ValueError for an unexpected answer.
    """
    found = [numbers(session, statement, 2) for statement in statements]
    return Reading(
        tuple(statements), sum(rows for rows, _ in found), sum(crcs for _, crcs in found)
    )


def numbers(session: Session, sql: str, n: int) -> tuple[int, ...]:
    """Return a statement's only row, NULL as 0. Raise ValueError for any other result."""
    rows = session.query(sql)
    if len(rows) != 1 or len(rows[0]) != n:
        columns = len(rows[0]) if rows else 0
        raise ValueError(f"expected 1 row of {n} columns, got {len(rows)} of {columns}")
    try:
        return tuple(0 if value is None else int(str(value)) for value in rows[0])
    except ValueError:
        raise ValueError("expected integers, got other values") from None


def difference(expected: Reading, found: Reading) -> str:
    """Return in words how the found rows differ from the expected ones."""
    n = len(expected.statements)
    parts = []
    if found.rows != expected.rows:
        parts.append(f"found {found.rows:,} rows, expected {expected.rows:,}")
    if found.checksum != expected.checksum:
        parts.append(f"found the checksum {found.checksum}, expected {expected.checksum}")
    return f"{'' if n == 1 else f'in {n} samples, '}{' and '.join(parts)}"
