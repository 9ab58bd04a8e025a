"""The event file: what was appended is read, a torn line is not."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millrace.store.events import EventLog, read_events

NUMBERS = st.integers(-(2**64) + 1, 2**64 - 1)
EVENTS = st.dictionaries(st.text(), st.none() | NUMBERS | st.text(), max_size=3)


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


def test_lines_that_no_reader_may_follow_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    hostile = [
        "[" * 100_000,
        '{"a":' * 2_000 + "1" + "}" * 2_000,
        '{"value": NaN}',
        '{"value": 1' + "0" * 30 + "}",
        '{"text": "\\ud800"}',
        "[" + "1," * 200_000 + "1]",
        '{"text": "' + "x" * (1 << 20) + '"}',
        "x" * (3 << 20) + '{"event": "the end of a line"}',
        "[1]",
    ]
    with EventLog(path) as log:
        log.append({"event": "first"})
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in hostile)
    with EventLog(path) as log:
        log.append({"event": "last"})
    assert list(read_events(path)) == [{"event": "first"}, {"event": "last"}]
