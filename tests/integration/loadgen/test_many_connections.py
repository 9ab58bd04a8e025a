"""Test ten thousand clients of one server, each on a connection of its own."""

import resource
from collections.abc import Iterator

import pytest

from tests.conftest import InstanceOf
from tests.support import driving
from tests.support.driving import by_socket, drive, specification, succeeded

pytestmark = pytest.mark.integration

CLIENTS = 10_000
TRANSACTIONS = 3 * CLIENTS
# Further open files of the server and of the load generator.
OTHERS = 1_000


@pytest.fixture(autouse=True)
def open_files() -> Iterator[None]:
    """Let this process and its children open a file for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CLIENTS + OTHERS:
        pytest.skip(f"a process may open {hard} files here, and {CLIENTS + OTHERS} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_each_of_many_connections_works_and_is_counted(instance_of: InstanceOf) -> None:
    options = {
        "max_connections": str(CLIENTS + 10),
        "thread_handling": "pool-of-threads",
        "back_log": "10000",
        "open_files_limit": str(CLIENTS + OTHERS),
        "table_open_cache": "400",
    }
    with instance_of("mariadb-10.11.19", **options) as instance:
        driving.fresh(instance)
        before = driving.status(instance)
        phase = drive("select", clients=CLIENTS, transactions=TRANSACTIONS)
        done = succeeded(specification(by_socket(instance), phase))
        after = driving.status(instance)
    record = driving.record(done.driven, "transactions", "select")
    assert record["count"] == TRANSACTIONS
    assert record["service"]["count"] == TRANSACTIONS
    connected = after["Connections"] - before["Connections"]
    assert CLIENTS <= connected <= CLIENTS + 10
    assert after["Max_used_connections"] >= CLIENTS
