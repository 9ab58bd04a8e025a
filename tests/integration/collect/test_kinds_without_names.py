"""Test kinds of background threads by their functions, with the Performance Schema off."""

from __future__ import annotations

from collections import Counter

import pytest

from millrace.collect.threads.thread_watch import ThreadWatch
from tests.conftest import InstanceOf
from tests.integration.collect.driven import target_of

pytestmark = pytest.mark.integration

# The latest servers would choose these by the number of CPUs.
OPTIONS = {"innodb_read_io_threads": "4", "innodb_write_io_threads": "4"}
IO = {"io": 10}
TIMERS = {"timer": 3}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Here the master thread purges and flushes.
        ("mysql-5.5.34", {**IO, **TIMERS}),
        ("mysql-5.6.24", {**IO, **TIMERS, "purge": 1, "page_cleaner": 1}),
        ("mysql-5.7.22", {**IO, **TIMERS, "purge": 4, "page_cleaner": 1}),
        (
            "mysql-8.0.33",
            {"io": 9, **TIMERS, "purge": 4, "page_cleaner": 1, "log": 5, "checkpoint": 1},
        ),
        ("mysql-9.7.4", {"io": 9, **TIMERS, "purge": 1, "log": 5, "checkpoint": 1}),
        ("mariadb-10.1.23", {**IO, "timer": 4, "purge": 1, "page_cleaner": 2}),
        # The names of this version.
        ("mariadb-11.8.9", {"io": 1, "timer": 1, "page_cleaner": 1}),
    ],
)
def test_threads_are_known_by_what_they_run(
    instance_of: InstanceOf, name: str, expected: dict[str, int]
) -> None:
    options = OPTIONS | ({"innodb_purge_threads": "1"} if name == "mysql-9.7.4" else {})
    with instance_of(name, performance_schema="OFF", **options) as instance:
        watch = ThreadWatch(target_of(instance))
        watch.sample()
        kinds = watch.kinds()
        watch.close()
    others = ("background", "connection", "observer")  # the collector has a session itself
    found = Counter(kind for kind in kinds.values() if kind not in others)
    assert found == {"main": 1, **expected}


def test_a_server_without_names_and_symbols_says_what_would_help(instance_of: InstanceOf) -> None:
    with instance_of("mariadb-10.11.19", performance_schema="OFF") as instance:
        watch = ThreadWatch(target_of(instance))
        watch.sample()
        [lack] = watch.missing(watch.kinds())
        watch.close()
    assert "performance_schema = 1" in str(lack.hint)
    with instance_of("mariadb-10.11.19", performance_schema="ON") as instance:
        watch = ThreadWatch(target_of(instance))
        watch.sample()
        assert not list(watch.missing(watch.kinds()))
        kinds = Counter(watch.kinds().values())
        watch.close()
    assert kinds["page_cleaner"] == 1
