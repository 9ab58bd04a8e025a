from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.report.common.wording import short_symbol


@pytest.mark.parametrize(
    ("symbol", "short"),
    [
        ("main", "main"),
        ("do_command(THD*)", "do_command"),
        ("row_search_mvcc(unsigned char*, page_cur_mode_t, row_prebuilt_t*)", "row_search_mvcc"),
        ("Item_func::fix_fields(THD*, Item**) const", "Item_func::fix_fields"),
        ("void std::sort<int*, bool (*)(int, int)>(int*, int*)", "std::sort"),
        ("rw_lock_x_lock_func [clone .isra.0]", "rw_lock_x_lock_func"),
        ("page_cur_search_with_match.constprop.3", "page_cur_search_with_match"),
        ("(anonymous namespace)::Log::write(char const*)", "Log::write"),
        ("Bitmap<64u>::is_set(unsigned int) const", "Bitmap::is_set"),
        ("operator new(unsigned long)", "operator new(unsigned long)"),
        ("std::operator<<(std::ostream&, char)", "std::operator<<(std::ostream&, char)"),
        ("page_cleaner", "page_cleaner"),
        ("[unknown]", "[unknown]"),
        ("", ""),
    ],
)
def test_names_are_short(symbol: str, short: str) -> None:
    assert short_symbol(symbol) == short


@given(st.text())
def test_any_name_has_a_short_one(symbol: str) -> None:
    assert len(short_symbol(symbol)) <= len(symbol)
