"""Test untrusted JSON: exceeding a limit raises one kind of error."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import safe_json
from millrace.errors import UserError
from millrace.host import exclusive
from millrace.safe_json import JsonRefused, Limits

SMALL = Limits(size_bytes=200_000, values=1000, depth=4, text_chars=10)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000 + "]" * 100_000, "larger than|more than"),
        ("[" * 900, "deep|Expecting"),
        ("[[[[[]]]]]", "nested more than 4 levels"),
        ("[NaN]", "NaN is not a valid JSON number"),
        ("[-Infinity]", "not a valid JSON number"),
        ("1e999", "beyond"),
        (str(10**30), "beyond"),
        ("9" * 5000, "limit|beyond"),
        ('"\\ud800"', "surrogate"),
        ('"01234567890"', "longer than 10"),
        ('{"01234567890": 1}', "longer than 10"),
        ("[" + "0," * 1000 + "0]", "more than 1,000 values"),
        (" " * 200_001, "larger than"),
        ("", "Expecting"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_what_is_beyond_a_limit_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(JsonRefused, match=said):
        safe_json.parse(text, SMALL)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63) + 1, 2**63 - 1)
        | st.floats(-1e20, 1e20)
        | st.text(st.characters(codec="utf-8"), max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=9), inner, max_size=3)
        ),
        max_leaves=20,
    )
)
def test_what_is_within_the_limits_is_as_python_reads_it(value: Any) -> None:
    text = json.dumps(value)
    assert safe_json.parse(text) == json.loads(text)
    assert safe_json.parse(text.encode()) == json.loads(text)


def test_a_deep_lock_of_another_user_is_not_followed(tmp_path: Path) -> None:
    """The holder of the lock may write anything into its file."""
    file = tmp_path / "host.lock"
    with exclusive.host_lock("holding", file=file):
        file.write_text("[" * 4096)
        with (
            pytest.raises(UserError, match="an unknown process"),
            exclusive.host_lock("waiting", file=file),
        ):
            pass
