"""Read an attempt's series of seconds: JSON lines of the load generator (docs/load-spec.md)."""

from collections.abc import Mapping

from millrace import safe_json
from millrace.store import checked
from millrace.store.records import DrivenInterval, DrivenPhase

KIND = "series"
_MOST_LINES = 1_000_000

_EVENTS: Mapping[str, type[DrivenPhase | DrivenInterval]] = {
    "phase": DrivenPhase,
    "interval": DrivenInterval,
}


def parse(content: bytes) -> tuple[DrivenPhase | DrivenInterval, ...]:
    """Return the events in a file's bytes that are read; raise ValueError for invalid ones."""
    lines = enumerate(safe_json.parse_lines(content, _MOST_LINES), start=1)
    return tuple(
        checked.document(f"line {number}", kind, line)
        for number, line in lines
        if (kind := _EVENTS.get(str(line.get("type")))) is not None
    )
