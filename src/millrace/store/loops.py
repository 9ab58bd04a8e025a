"""Read the figures of a trial's loops: JSON lines that the trial wrote, one a loop."""

from millrace import safe_json
from millrace.model.documents import Count, Document, Items, Whole

KIND = "loops"
_MOST_LINES = 100_000


class LoopOperation(Document):
    """A transaction of the workload in a loop; ``encoded`` is a histogram of service times."""

    name: str
    count: Whole
    sum_s: Count
    encoded: str


class LoopRecord(Document):
    """A loop of one trial, by its number from 1: ``trial`` writes it, ``analysis`` reads it.

    The bytes are those of the data directory when it ended, their length and without holes; None
    where the server is an attached one. Before a loop that ``restarted_cold``, the server started
    again on the files that a stopped or killed millrace left.
    """

    loop: int
    transactions: Whole
    errors: Whole
    duration_s: Count
    restarted_cold: bool = False
    apparent_bytes: Whole | None = None
    allocated_bytes: Whole | None = None
    operations: Items[LoopOperation] = ()


def parse(content: bytes) -> tuple[LoopRecord, ...]:
    """Return the loops in a file's bytes; raise ValueError for invalid ones, or none in a row."""
    found = tuple(map(LoopRecord.model_validate, safe_json.parse_lines(content, _MOST_LINES)))
    if any(each.loop != number for number, each in enumerate(found, start=1)):
        raise ValueError("loops are not numbered in a row")
    return found
