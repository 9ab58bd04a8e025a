"""Test which tests are left to `make test-all`."""

from tests import slow


def test_of_several_servers_one_of_each_family_is_kept() -> None:
    names = ("mysql-5.5.9", "mysql-8.0.33", "mariadb-10.1.8", "mariadb-11.8.9")
    tests: dict[str, tuple[object, ...]] = {
        f"a.py::test_a[{name}-{kind}]": (name, kind) for name in names for kind in ("x", 1)
    }
    tests["a.py::test_b[mysql-5.5.9]"] = ("mysql-5.5.9",)
    tests["a.py::test_c"] = ()
    kept = set(tests) - slow.slow_tests(tests, frozenset())
    assert kept == {
        "a.py::test_a[mysql-8.0.33-x]",
        "a.py::test_a[mysql-8.0.33-1]",
        "a.py::test_a[mariadb-10.1.8-x]",
        "a.py::test_a[mariadb-10.1.8-1]",
        "a.py::test_b[mysql-5.5.9]",
        "a.py::test_c",
    }


def test_what_is_listed_is_slow_with_all_parameters_or_one() -> None:
    tests = {"a.py::test_a[1]": (1,), "a.py::test_a[2]": (2,), "a.py::test_b[1]": (1,)}
    assert slow.slow_tests(tests, frozenset({"a.py::test_a"})) == set(list(tests)[:2])
    assert slow.slow_tests(tests, frozenset({"a.py::test_a[2]"})) == {"a.py::test_a[2]"}
