"""Text of others as it is shown."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from millrace.shown_text import shown, shown_json, shown_line


@pytest.mark.parametrize(
    ("text", "as_shown"),
    [
        ("8.0.33 – µs, 日本語, é", "8.0.33 – µs, 日本語, é"),
        ("a\tb\nc\r\nd", "a\tb\nc\r\nd"),
        ("\x1b]52;c;ZXZpbA==\x07", r"\x1b]52;c;ZXZpbA==\x07"),
        ("\x9b31mred", r"\x9b31mred"),
        ("a\rb", r"a\rb"),
        ("abc\u202etxt", r"abc\u202etxt"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("lone\udc80", r"lone\udc80"),
    ],
)
def test_hidden_characters_become_visible(text: str, as_shown: str) -> None:
    assert shown(text) == as_shown
    assert shown(as_shown) == as_shown


def test_no_character_that_unicode_calls_a_control_or_a_format_is_kept() -> None:
    kept = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and chr(code) not in "\t\n"
        and shown(chr(code)) == chr(code)
    ]
    assert kept == []


def test_a_name_stays_on_its_line() -> None:
    assert shown_line("a\r\n\tb\x1b[2J") == r"a\r\n\tb\x1b[2J"
    assert shown_line("10.11.6-MariaDB é") == "10.11.6-MariaDB é"


def test_a_json_document_holds_the_same() -> None:
    value = {"name\x9b": "\x1b]52\u202e\U000e0041\x7f\n"}
    document = json.dumps(value, ensure_ascii=False)
    assert json.loads(shown_json(document)) == value
    assert shown(shown_json(document)) == shown_json(document)
