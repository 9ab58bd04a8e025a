"""Test names of functions that are comparable between builds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect.profiling.function_names import demangled, short

AS_PRINTED = [
    ("row_upd_step", "row_upd_step"),
    ("row_upd_step(que_thr_t*)", "row_upd_step"),
    ("Item_func::val_int", "Item_func::val_int"),
    ("Item::val_int() const", "Item::val_int"),
    ("Detached_thread::operator()<void (*)()>", "Detached_thread::operator()"),
    ("void page_delete<ulint (*)(unsigned char const*)>(int, char (&)[3])", "page_delete"),
    ("unsigned long const& std::max<unsigned long>(unsigned long const&)", "std::max"),
    ("char const* std::find<char const*>(char const*) noexcept", "std::find"),
    ("bool std::operator< <char>(A<char> const&, A<char> const&)", "std::operator<"),
    ("std::ostream& std::operator<< <A<(B)1> >(std::ostream&, char)", "std::operator<<"),
    ("Arena::operator new[](unsigned long)", "Arena::operator new[]"),
    ("operator new(unsigned long)", "operator new"),
    ("Name_string::operator bool() const", "Name_string::operator bool"),
    ("Value::operator std::vector<int, std::allocator<int> >() const",
     "Value::operator std::vector"),
    ("Value::operator unsigned long", "Value::operator unsigned long"),
    ("Smart<A>::operator->() const", "Smart::operator->"),
    ("Set<&(A::operator<(A const&)), 3>::find(A)", "Set::find"),
    ("Add<((1)>(2))>::get()", "Add::get"),
    ("(anonymous namespace)::flush(bool)", "flush"),
    ("dd::(anonymous namespace)::Fetch<dd::Table>::run(THD*)", "dd::Fetch::run"),
    ("scan()::{lambda(std::map<A, B> const&)#1}::operator()(A) const",
     "scan::{lambda#1}::operator()"),
    ("auto Monitor::rows<A>(B) const::{lambda(auto:1 const&)#2}::operator()<C>(C) const",
     "Monitor::rows::{lambda#2}::operator()"),
    ("get()::{unnamed type#1}::reset()", "get::{unnamed type#1}::reset"),
    ("non-virtual thunk to Sql_cmd::execute(THD*)", "Sql_cmd::execute"),
    ("std::__cxx11::basic_string<char>::append[abi:cxx11](char const*)",
     "std::basic_string::append"),
    ("lock_rec_lock(bool) [clone .isra.0] [clone .cold]", "lock_rec_lock"),
]  # fmt: skip
AS_LINKED = [
    ("_Z12row_upd_stepP9que_thr_t", "row_upd_step"),
    ("_ZNK4Item7val_intEv", "Item::val_int"),
    ("_ZN12Clone_Handle4openEv.isra.0.cold", "Clone_Handle::open"),
    ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector::push_back"),
    ("_ZN8nonsense", "_ZN8nonsense"),
]
OF_C = [
    ("finish_task_switch.isra.0", "finish_task_switch"),
    ("srv_free_slot.part.3.constprop.17", "srv_free_slot"),
    ("buf_flush.lto_priv.0.cold", "buf_flush"),
    ("static_in_two_files.1234", "static_in_two_files"),
    ("memcpy@@GLIBC_2.14", "memcpy"),
    ("pthread_create@GLIBC_2.2.5", "pthread_create"),
    ("memcpy@plt", "memcpy@plt"),
    ("_GLOBAL__sub_I_row0mysql.cc", "_GLOBAL__sub_I_row0mysql.cc"),
    (".plt", ".plt"),
    ("@", "@"),
    ("[unknown]", "[unknown]"),
    ("__memmove_avx_unaligned_erms", "__memmove_avx_unaligned_erms"),
]


@pytest.mark.parametrize(("symbol", "name"), [*AS_PRINTED, *OF_C])
def test_a_name_is_without_types_and_copies(symbol: str, name: str) -> None:
    assert short(symbol) == name


@pytest.mark.parametrize(("symbol", "name"), AS_LINKED)
def test_mangled_names_are_taken_apart_as_well(symbol: str, name: str) -> None:
    if demangled("_Z1fv") is None:
        pytest.skip("this host has no C++ library that demangles")
    assert short(symbol) == name


def test_a_function_of_many_types_is_one() -> None:
    of_5_6 = "page_cur_search_with_match(buf_block_t const*, dict_index_t const*, dtuple_t const*)"
    of_8_0 = "page_cur_search_with_match(buf_block_t const*, dict_index_t const*, int, rtr_info*)"
    assert short(of_5_6) == short(of_8_0) == "page_cur_search_with_match"


@pytest.mark.parametrize("name", [name for _, name in AS_PRINTED])
def test_a_short_name_stays_as_it_is(name: str) -> None:
    assert short(name) == name


@given(st.text(alphabet="aZ_9:<>()[]{}-&*~ ,.@#operatrcns", max_size=60))
def test_any_text_has_a_name(symbol: str) -> None:
    assert isinstance(short(symbol), str)
    assert bool(short(symbol)) == bool(symbol)


WORDS = st.text(alphabet="abcdefghijklm_", min_size=1, max_size=8)


@given(
    names=st.lists(WORDS, min_size=1, max_size=4),
    arguments=st.lists(WORDS, max_size=3),
    parameters=st.lists(WORDS, max_size=3),
)
def test_only_names_are_left(names: list[str], arguments: list[str], parameters: list[str]) -> None:
    name = "::".join(names)
    symbol = f"{name}<{', '.join(arguments)}>({', '.join(parameters)}) const"
    assert short(symbol) == name
    assert short(f"std::pair<int, {name}> {symbol}") == name
    assert short(f"Holder<{symbol}>::get(void (*)({name}))") == "Holder::get"
