"""Find the slow tests, which `make test` leaves to `make test-all`.

These are the ones that slow.txt lists, by their names with or without parameters, one a line. Of
an integration test that runs on several servers, all but one MySQL and one MariaDB are slow, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests import servers

LISTED = Path(__file__).with_name("slow.txt")

# What runs most of the installations, and servers that start soon, go first.
_PREFERRED = ("mysql-8.0.33", "mysql-5.7.22", "mysql-5.6.24", "mysql-8.0.12", "mariadb-10.11.19")


def listed() -> frozenset[str]:
    """Return the names that slow.txt lists."""
    return frozenset(LISTED.read_text(encoding="utf-8").splitlines())


def slow_tests(tests: Mapping[str, Iterable[object]], listed: frozenset[str]) -> frozenset[str]:
    """Return the names of slow tests.

    ``tests`` has the parameters' values of each integration test, and none for other tests.
    """
    families = defaultdict(set)
    for name, values in tests.items():
        for server in _servers(values):
            families[_function(name), _family(server)].add(server)
    chosen = {key: min(several, key=_rank) for key, several in families.items()}
    return frozenset(
        name
        for name, values in tests.items()
        if name in listed
        or _function(name) in listed
        or any(chosen[_function(name), _family(each)] != each for each in _servers(values))
    )


def _servers(values: Iterable[object]) -> list[str]:
    return [each for each in values if isinstance(each, str) and each in servers.NAMES]


def _function(name: str) -> str:
    return name.partition("[")[0]


def _family(server: str) -> str:
    return server.partition("-")[0]


def _rank(server: str) -> tuple[int, int]:
    place = _PREFERRED.index(server) if server in _PREFERRED else len(_PREFERRED)
    return place, servers.NAMES.index(server)
