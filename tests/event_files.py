"""Read the event file of a run, as its users would."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

from pydantic import Field, TypeAdapter, ValidationError

from millrace import safe_json
from millrace.model.events import Event

_OF_AN_EVENT = safe_json.Limits(text_chars=1 << 20, largest=2**64 - 1)  # counters of servers
_EVENT: TypeAdapter[Event] = TypeAdapter(
    Annotated[Event, Field(discriminator="event")], config={"defer_build": True}
)


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a file, oldest first; none without a file.

    Skips a line truncated by a crash, the line being written, and a line that is not an event or
    exceeds the limits of an event.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in _whole_lines(file):
            try:
                event = _event(safe_json.parse_object(line, _OF_AN_EVENT))
            except safe_json.JsonRefused:
                continue
            if event is not None:
                yield event


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield each complete line, with at most the bytes that an event may have."""
    is_begin = True
    while piece := file.readline(_OF_AN_EVENT.size_bytes):
        is_end = piece.endswith(b"\n")
        if is_begin and is_end:
            yield piece
        is_begin = is_end


def _event(document: object) -> Event | None:
    """Return the event of plain data; None where it is none."""
    try:
        return _EVENT.validate_python(document)
    except ValidationError:
        return None
