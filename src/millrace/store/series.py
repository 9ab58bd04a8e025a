"""Read an attempt's series of seconds: JSON lines of the load generator (docs/load-spec.md)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from millrace import safe_json
from millrace.model.documents import Count, Document, Items, Positive
from millrace.store import checked

KIND = "series"
_MOST_LINES = 1_000_000


class _Part(Document):
    duration_s: Count


class _Maintenance(Document):
    from_s: Count
    parts: Annotated[Items[_Part], Field(min_length=1)]


class _Phase(Document):
    type: Literal["phase"]
    warmup_s: Count | None = None
    duration_s: Count | None = None
    maintenance: _Maintenance | None = None


class _Interval(Document):
    type: Literal["interval"]
    part: str | None = None
    t_s: Count
    duration_s: Positive
    transactions: Count
    p50_us: Count | None = None


_EVENTS: Mapping[str, type[Document]] = {"phase": _Phase, "interval": _Interval}  # that are read


def check(content: bytes) -> None:
    """Raise ValueError for a file's bytes that are not a series."""
    for number, event in enumerate(parse(content), start=1):
        kind = event.get("type")
        if isinstance(kind, str) and kind in _EVENTS:
            checked.document(f"line {number}", _EVENTS[kind], event)


def parse(content: bytes) -> tuple[Mapping[str, Any], ...]:
    """Return the events in a file's bytes; raise ValueError for invalid ones."""
    return safe_json.parse_lines(content, _MOST_LINES)
