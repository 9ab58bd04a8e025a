"""Read the samples of a replica's lag: JSON lines that the trial wrote (docs/replication.md)."""

from collections.abc import Iterable

from millrace import safe_json
from millrace.model.documents import Count, Document, Number

KIND = "lag"
_MOST_LINES = 1_000_000
_OF_A_LINE = safe_json.Limits(largest=2**64 - 1)  # lengths of servers' logs


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
    lines = content.splitlines()
    if len(lines) > _MOST_LINES:
        raise ValueError(f"more than {_MOST_LINES:,} lines")
    return tuple(
        LagSample.model_validate(safe_json.parse_object(line, _OF_A_LINE)) for line in lines
    )


def as_lines(samples: Iterable[LagSample]) -> bytes:
    """Return samples as the bytes of a file."""
    return "".join(f"{each.model_dump_json()}\n" for each in samples).encode()
