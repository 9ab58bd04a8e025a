"""Read the samples of a replica's lag: JSON lines that the trial wrote (docs/replication.md)."""

from millrace import safe_json
from millrace.model.documents import Count, Document, Number

KIND = "lag"
_MOST_LINES = 1_000_000


class LagSample(Document):
    """A replica at one moment; ``lag_s`` is None where it had no heartbeat to show."""

    t_s: Count
    written_bytes: int
    received_bytes: int
    applied_bytes: int
    lag_s: Count | None
    reported_lag_s: Number | None


def parse(content: bytes) -> tuple[LagSample, ...]:
    """Return the samples in a file's bytes; raise ValueError for invalid ones."""
    return tuple(map(LagSample.model_validate, safe_json.parse_lines(content, _MOST_LINES)))
