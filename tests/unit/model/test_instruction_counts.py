"""Test that counts come back as they were stored, and that others' documents are limited."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import safe_json
from millrace.model import instruction_counts as documents
from millrace.model.instruction_counts import (
    CountedStart,
    Program,
    Repetition,
    StoredCounts,
    stored_counts,
)
from millrace.store import observations

NAMES = st.sampled_from(["dispatch_command", "read", "operator new", "ns::f<int>", "[unknown]"])
PATHS = st.lists(NAMES, min_size=1, max_size=8).map(tuple)
COSTS = st.dictionaries(PATHS, st.integers(1, 10**12).map(float), max_size=20)

START = CountedStart(
    480,
    (
        Repetition(instructions=100.5, background=3.0, number=0),
        Repetition(instructions=101.0, background=2.5, number=1),
    ),
    {("run",): 40.0, ("run", "read", "memcpy"): 60.0},
    {"memcpy": "libc.so", "elsewhere": "libm.so"},
)
PROGRAM = Program(compilers=("GCC: (GNU) 4.1.2",), position_independent=False)


def document() -> dict[str, Any]:
    return copy.deepcopy(stored_counts(START, PROGRAM, "3.19.0"))


@given(COSTS)
def test_call_paths_come_back(paths: dict[tuple[str, ...], float]) -> None:
    start = CountedStart(6, START.repetitions, paths, {})
    stored = StoredCounts.model_validate(stored_counts(start, None, "3.19.0"))
    assert stored.start().paths == paths
    assert stored.program is None


def test_a_start_comes_back_through_a_file() -> None:
    content = observations._content({"instructions": document()})
    stored = observations.parse(content).instructions
    assert stored is not None
    assert stored.start().repetitions == START.repetitions
    assert stored.start().transactions == 480
    assert stored.start().files == {"memcpy": "libc.so"}
    assert stored.program == PROGRAM
    assert stored.names == ("run", "read", "memcpy")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"callers": [0, 0, 1]}, "call 0 is of an unknown caller"),
        ({"callers": [-2, 0, 1]}, "call 0 is of an unknown caller"),
        ({"callers": [-1, 2, 1]}, "call 1 is of an unknown caller"),
        ({"functions": [0, 1, 3]}, "call 2 is of an unknown caller or function"),
        ({"own": [1.0]}, "differ in length"),
        ({"own": [1.0, float("nan"), 1.0]}, "finite number"),
        ({"own": [1.0, True, 1.0]}, "a number is expected"),
        ({"repetitions": []}, "at least 1 item"),
        ({"transactions": 0}, "greater than or equal to 1"),
        ({"names": [1, 2, 3]}, "valid string"),
    ],
)
def test_what_is_no_tree_of_calls_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        StoredCounts.model_validate({**document(), **changes})


def test_endless_call_paths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = list(range(-1, 300))
    deep = {"callers": chain, "functions": [0] * len(chain), "own": [1.0] * len(chain)}
    with pytest.raises(ValueError, match="deeper, or more, than any server's"):
        StoredCounts.model_validate({**document(), **deep})
    monkeypatch.setattr(documents, "_LONGEST", 5)
    with pytest.raises(ValueError, match="deeper, or more, than any server's"):
        StoredCounts.model_validate(document())


def test_a_document_is_read_within_the_limits_of_files() -> None:
    text = '{"instructions": ' + '{"a":' * 70 + "1" + "}" * 70 + "}"
    with pytest.raises(safe_json.JsonRefused, match="levels deep"):
        observations.parse(text.encode())
    with pytest.raises(safe_json.JsonRefused, match="not a valid JSON number"):
        observations.parse(b'{"instructions": {"own": [NaN]}}')
