"""Test which name a mistyped one may mean."""

import pytest

from millrace.errors import names_with, nearest, nearest_names


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("foo", "food", "food"),
        ("idd", "id", "id"),
        ("serverz", "server", "server"),
        ("esrver", "server", "server"),
        ("cleints", "clients", "clients"),
        ("Table_Size", "table-size", "table-size"),
        ("warm", "warmup_s", "warmup_s"),
        ("mysql-8.0.3", "mysql-8.0.33", "mysql-8.0.33"),
        ("test", "tls", None),
        ("select", "delete", None),
        ("sort", "port", None),
        ("id", "is", None),
        ("read", "write", None),
        ("", "x", None),
        (3, "3s", None),
    ],
)
def test_nearest_name_is_one_that_may_be_meant(name: object, known: str, near: str | None) -> None:
    assert nearest(name, [known]) == near


def test_nearest_names_begin_with_the_fewest_wrong_letters() -> None:
    known = ["update-nonindex", "update-index", "update-one", "write-only"]
    assert nearest_names("update-indx", known)[0] == "update-index"
    assert nearest_names("update-nonindx", known)[0] == "update-nonindex"


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("select", ["point-select", "select_random_points", "select_random_ranges"], None),
        ("update", ["update-index", "update-nonindex", "update-one"], None),
        ("update", ["update-one", "write-only"], "update-one"),
        ("mysql-5.7", ["mysql-5.5.9", "mysql-5.7.19", "mysql-5.7.22"], None),
        ("table_siz", ["table_size", "table_sizes"], "table_size"),
    ],
)
def test_word_of_several_names_stands_for_none_of_them(
    word: str, known: list[str], near: str | None
) -> None:
    assert nearest(word, known) == near


def test_names_with_a_word_contain_it_in_any_spelling() -> None:
    known = ["point-select", "Select_Random_Points", "write-only"]
    assert names_with("select", known) == ["point-select", "Select_Random_Points"]
    assert names_with("random-points", known) == ["Select_Random_Points"]
    assert names_with("sel", known) == []
