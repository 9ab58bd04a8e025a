"""Read the figures of a trial's loops: JSON lines that the trial wrote, one a loop."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from millrace import safe_json
from millrace.model.documents import Count, Document, Items

KIND = "loops"
_MOST_LINES = 100_000
_OF_A_LINE = safe_json.Limits(largest=2**64 - 1)

_Whole = Annotated[int, Field(ge=0)]


class LoopOperation(Document):
    """A transaction of the workload in a loop; ``encoded`` is a histogram of service times."""

    name: str
    count: _Whole
    sum_s: Count
    encoded: str


class LoopRecord(Document):
    """A loop of one trial, by its number from 1: ``trial`` writes it, ``analysis`` reads it.

    The bytes are those of the data directory when it ended, their length and without holes; None
    where the server is an attached one. Before a loop that ``restarted_cold``, the server started
    again on the files that a stopped or killed millrace left.
    """

    loop: int
    transactions: _Whole
    errors: _Whole
    duration_s: Count
    restarted_cold: bool = False
    apparent_bytes: _Whole | None = None
    allocated_bytes: _Whole | None = None
    operations: Items[LoopOperation] = ()


def parse(content: bytes) -> tuple[LoopRecord, ...]:
    """Return the loops in a file's bytes; raise ValueError for invalid ones, or none in a row."""
    lines = content.splitlines()
    if len(lines) > _MOST_LINES:
        raise ValueError(f"more than {_MOST_LINES:,} lines")
    found = tuple(
        LoopRecord.model_validate(safe_json.parse_object(line, _OF_A_LINE)) for line in lines
    )
    if any(each.loop != number for number, each in enumerate(found, start=1)):
        raise ValueError("loops are not numbered in a row")
    return found


def as_lines(loops: Iterable[LoopRecord]) -> bytes:
    """Return loops as the bytes of a file."""
    return "".join(f"{each.model_dump_json()}\n" for each in loops).encode()
