"""Test the event file: complete lines are read, torn ones are not."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millrace.model.events import (
    ClosedComparison,
    Event,
    IntervalEnded,
    ResultWaits,
    RunAssessed,
    StepBegan,
    TrialBegan,
    TrialEnded,
)
from millrace.store.events import EventLog
from tests.event_files import read_events

# JSON has no lone surrogates.
TEXTS = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(0, 2**64 - 1)
SECONDS = st.floats(0, 1e9)
ABOUT: Mapping[str, Any] = {
    "trial": TEXTS, "treatment": TEXTS, "treatment_id": TEXTS, "block": NUMBERS,
    "position": NUMBERS, "purpose": st.sampled_from(["measure", "aa", "profile"]),
}  # fmt: skip
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TrialBegan, **ABOUT),
    st.builds(
        TrialEnded, **ABOUT, outcome=st.sampled_from(["finished", "failed", "interrupted"]),
        failed_step=st.none() | TEXTS, reason=st.none() | TEXTS,
    ),
    st.builds(StepBegan, name=TEXTS, trial=st.none() | TEXTS),
    st.builds(
        IntervalEnded, phase=TEXTS, t_s=SECONDS, rows=NUMBERS, kind=st.none() | TEXTS,
        part=st.none() | TEXTS, trial=st.none() | TEXTS,
    ),
    st.builds(ResultWaits, reason=TEXTS),
    st.builds(
        RunAssessed, blocks=NUMBERS, open=NUMBERS, about_s=SECONDS, at_most_s=SECONDS,
        at_most_trials=NUMBERS,
        closed=st.lists(
            st.builds(ClosedComparison, label=TEXTS, state=TEXTS, verdict=st.none() | TEXTS)
        ).map(tuple),
    ),
)  # fmt: skip
RESUMED = StepBegan(name="resumed")


@given(st.lists(EVENTS, max_size=5), st.binary(max_size=10).filter(lambda b: b"\n" not in b))
def test_events_come_back_in_order_whatever_a_crash_left_between_them(
    events: list[Event], torn: bytes
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "events" / "run.jsonl"
        with EventLog(path) as log:
            for event in events:
                log.append(event)
        # A torn line is a prefix of one, so it never is a whole event.
        with path.open("ab") as file:
            file.write(b'{"event": "' + torn)
        assert list(read_events(path)) == events
        with EventLog(path) as log:
            log.append(RESUMED)
        assert list(read_events(path)) == [*events, RESUMED]


def test_an_event_is_seen_before_the_file_is_closed(tmp_path: Path) -> None:
    with EventLog(tmp_path / "run.jsonl") as log:
        log.append(StepBegan(name="étape\n"))
        assert list(read_events(log.path)) == [StepBegan(name="étape\n")]


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
        '{"event": "step"}',
        '{"event": "of another millrace"}',
    ]
    with EventLog(path) as log:
        log.append(StepBegan(name="first"))
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in hostile)
    with EventLog(path) as log:
        log.append(StepBegan(name="last"))
    assert list(read_events(path)) == [StepBegan(name="first"), StepBegan(name="last")]
