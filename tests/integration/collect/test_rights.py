"""Test what collectors can observe of a server that belongs to another user."""

import pytest

from millrace.collect import thread_states, thread_usage
from millrace.collect.model import Collector, CollectorResult, Target
from millrace.errors import Unavailable
from tests.conftest import InstanceOf
from tests.support.driven import is_root, loaded, observed, target_of
from tests.support.ordinary_user import as_ordinary_user

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not is_root(), reason="only root has rights to do without"),
]


class Unprivileged:
    """A collector that runs as an ordinary user."""

    def __init__(self, target: Target) -> None:
        with as_ordinary_user():
            self._observer: Collector = thread_usage.collector(target)

    def begin(self) -> None:
        with as_ordinary_user():
            self._observer.begin()

    def end(self) -> None:
        with as_ordinary_user():
            self._observer.end()

    def result(self) -> CollectorResult:
        return self._observer.result()

    def close(self) -> None:
        self._observer.close()


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19"])
def test_threads_without_rights(instance_of: InstanceOf, name: str) -> None:
    with instance_of(name, thread_cache_size="0") as instance, loaded(instance):
        # The places where distributions put the socket and the file with the process id.
        for directory in (instance.directory, instance.pid_file.parent):
            directory.chmod(0o755)
        seen = observed(instance, (Unprivileged,), clients=4)
    section = seen.document["threads"]
    of_clients = [each for each in section["threads"] if each["kind"] == "connection"]
    assert {each["tid"] for each in of_clients} == seen.threads - seen.threads_left
    assert all(each["cpu_s"] > 0 and each["voluntary_switches"] > 0 for each in of_clients)
    assert all(each["read_bytes"] is None for each in section["threads"])
    assert section["process"]["read_calls"] is None
    assert section["process"]["cpu_s"] > 0
    what = [lack["what"] for lack in seen.document["missing"]]
    assert any("/proc/PID/io" in each for each in what)
    assert any("what the server's threads wait for" in each for each in what)
    assert all(lack["hint"] or "threads ended" in lack["what"] for lack in seen.document["missing"])


def test_states_need_rights(instance_of: InstanceOf) -> None:
    with (
        instance_of("mysql-5.6.24") as instance,
        as_ordinary_user(),
        pytest.raises(Unavailable, match=r"threads cannot be sampled: .*may not be inspected"),
    ):
        thread_states.collector(target_of(instance))
