"""Define the checks of a snapshot's tables: statements, and the answers that they must repeat."""

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.databases.client import Session
from millrace.model.documents import exact


@dataclass(frozen=True)
class Reading:
    """The number of rows that some statements found, and the sum of the rows' CRC-32.

    Each statement returns one row of both. The sum is 0 where the statements only count.
    """

    statements: tuple[str, ...]
    rows: int
    checksum: int


@exact
@dataclass(frozen=True)
class KeptTable:
    """A table of a snapshot.

    ``whole`` reads all its rows; None where there are too many.
    """

    name: str
    sample: Reading
    whole: Reading | None


def read(session: Session, statements: Sequence[str]) -> Reading:
    """Read a table by statements.

    Raise DatabaseError, and ValueError for an unexpected answer.
    """
    found = [numbers(session, statement, 2) for statement in statements]
    return Reading(
        tuple(statements), sum(rows for rows, _ in found), sum(crcs for _, crcs in found)
    )


def numbers(session: Session, sql: str, n: int) -> tuple[int, ...]:
    """Return the only row of a statement, NULL as 0. Raise ValueError for any other answer."""
    rows = session.query(sql)
    if len(rows) != 1 or len(rows[0]) != n:
        raise ValueError(f"the server answers with {len(rows)} rows where one of {n} is due")
    try:
        return tuple(0 if value is None else int(str(value)) for value in rows[0])
    except ValueError:
        raise ValueError("the server answers with other values than whole numbers") from None


def difference(expected: Reading, found: Reading) -> str:
    """Describe in words how the rows found differ from those expected."""
    n = len(expected.statements)
    parts = []
    if found.rows != expected.rows:
        parts.append(f"found {found.rows:,} rows, expected {expected.rows:,}")
    if found.checksum != expected.checksum:
        parts.append(f"found the checksum {found.checksum}, expected {expected.checksum}")
    return f"{'' if n == 1 else f'in {n} samples, '}{' and '.join(parts)}"
