"""The event file: what was appended is read, a torn line is not."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millrace.store.events import EventLog, read_events

EVENTS = st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=3)


@given(st.lists(EVENTS, max_size=5), st.binary(max_size=10).filter(lambda b: b"\n" not in b))
def test_events_come_back_in_order_whatever_a_crash_left_between_them(
    events: list[dict[str, Any]], torn: bytes
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "events" / "run.jsonl"
        with EventLog(path) as log:
            for event in events:
                log.append(event)
        # A torn line is the beginning of one, so it never is a whole event.
        with path.open("ab") as file:
            file.write(b'{"event": "' + torn)
        assert list(read_events(path)) == events
        with EventLog(path) as log:
            log.append({"event": "resumed"})
        assert list(read_events(path)) == [*events, {"event": "resumed"}]


def test_an_event_is_seen_before_the_file_is_closed(tmp_path: Path) -> None:
    with EventLog(tmp_path / "run.jsonl") as log:
        log.append({"event": "step", "name": "étape\n"})
        assert list(read_events(log.path)) == [{"event": "step", "name": "étape\n"}]


def test_no_file_is_no_events(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "none.jsonl")) == []
