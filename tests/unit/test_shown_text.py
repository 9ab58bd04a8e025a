"""Test the display of untrusted text, and in CSV files what a spreadsheet takes for a formula."""

import csv
import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.importers import paired
from millrace.importers.paired import Value
from millrace.importers.units import Measure
from millrace.shown_text import defused_cell, plain_cell, shown, shown_json, shown_line

_LOADGEN = Path(__file__).parents[2] / "crates/protocol/src/shown.rs"

# Default_Ignorable_Code_Point of Unicode 16 (DerivedCoreProperties.txt), which Python lacks.
_IGNORABLE = [
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]  # fmt: skip
_N_IGNORABLE = 4174  # the total that Unicode states below the list


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
        ("variant\ufe0f", r"variant\ufe0f"),
        ("mongolian\u180b", r"mongolian\u180b"),
        ("ideograph\U000e0100", r"ideograph\U000e0100"),
        ("null notehead\U0001d159", r"null notehead\U0001d159"),
        ("filler\U00016fe4", r"filler\U00016fe4"),
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


def test_no_character_that_unicode_lets_a_font_ignore_is_kept() -> None:
    ignorable = [code for first, last in _IGNORABLE for code in range(first, last + 1)]
    assert len(ignorable) == _N_IGNORABLE
    assert [hex(code) for code in ignorable if shown(chr(code)) == chr(code)] == []


def test_the_load_generator_escapes_the_same_characters() -> None:
    in_rust = {*range(0x20), 0x7F, *_hidden_in_rust()} - {ord("\n"), ord("\t")}
    here = {code for code in range(sys.maxunicode + 1) if shown(chr(code)) != chr(code)}
    surrogates = set(range(0xD800, 0xE000))  # impossible in Rust's strings
    assert here - surrogates == in_rust


def _hidden_in_rust() -> Iterator[int]:
    table = _LOADGEN.read_text(encoding="utf-8").partition("const HIDDEN")[2].partition("];")[0]
    for first, last in re.findall(r"\('\\u\{(\w+)\}', '\\u\{(\w+)\}'\)", table):
        yield from range(int(first, 16), int(last, 16) + 1)


def test_a_name_stays_on_its_line() -> None:
    assert shown_line("a\r\n\tb\x1b[2J") == r"a\r\n\tb\x1b[2J"
    assert shown_line("10.11.6-MariaDB é") == "10.11.6-MariaDB é"


def test_a_json_document_holds_the_same() -> None:
    value = {"name\x9b": "\x1b]52\u202e\U000e0041\x7f\n"}
    document = json.dumps(value, ensure_ascii=False)
    assert json.loads(shown_json(document)) == value
    assert shown(shown_json(document)) == shown_json(document)


_NAMES = [
    '=HYPERLINK("http://evil","x")', "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'=1", "''=1",
    "'quoted'", "10.11", " =1", "\u00a0\u3000\t@SUM(A1)", "\n+1", "' -1", "\uff1d1", "\uff0b1",
    " \uff0d1", "\uff20SUM(A1)",
]  # fmt: skip


def begins_a_formula(cell: str) -> bool:
    return cell.startswith(("\t", "\r", "\n")) or cell.strip()[:1] in set("=+-@＝＋－＠")


@pytest.mark.parametrize("name", _NAMES)
def test_a_name_comes_back_from_the_form_that_no_spreadsheet_computes(name: str) -> None:
    cell = defused_cell(name)
    assert isinstance(cell, str)
    assert not begins_a_formula(cell)
    assert plain_cell(cell) == name


@pytest.mark.parametrize("name", _NAMES)
def test_a_file_of_pairs_holds_the_same_names(name: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    values = [Value(block, side, 1.5) for block in ("1", name) for side in (name, "other")]
    text = paired.as_csv(values, Measure("s", "lower"), base=name)
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert not [cell for cell in cells if begins_a_formula(cell)]
    file.write_bytes(text.encode())
    found = paired.read(file).values
    same = name.replace("\r", r"\r").replace("\n", r"\n")
    assert found == {same: {"1": 1.5, same: 1.5}, "other": {"1": 1.5, same: 1.5}}
