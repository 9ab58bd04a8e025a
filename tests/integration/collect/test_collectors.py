"""Test that all collectors together make one document of a real server."""

import json
from typing import Any

import pytest

from millrace.collect import profile, sched_waits
from millrace.collect.collectors import collecting
from millrace.collect.registry import COLLECTORS
from millrace.errors import Unavailable
from millrace.host import perf
from millrace.host.tracing import Tracing
from millrace.loadgen import client as load
from millrace.trial import phase_spec
from millrace.trial.collection import window
from millrace.trial.resolved_workload import ResolvedWorkload
from tests.conftest import InstanceOf
from tests.support.driven import LIMIT_S, connection, loaded, target_of
from tests.support.small_workload import driving

pytestmark = pytest.mark.integration

CLIENTS = 4


def test_sections_tell_how_late_they_began_and_which_threads_are_ours(
    instance_of: InstanceOf,
) -> None:
    names = set(COLLECTORS) - {"disk"}  # the data may be on no disk
    try:
        perf.find()
    except Unavailable:
        names.remove(profile.NAME)
    try:
        Tracing(()).close()
    except Unavailable:
        names.remove(sched_waits.NAME)
    with instance_of("mysql-8.0.33", performance_schema="ON") as instance, loaded(instance):
        work = ResolvedWorkload(
            driving(), {"table_size": 1_000, "time_s": 2.0, "warmup_s": 0.2, "clients": CLIENTS}
        )
        spec = phase_spec.load_spec(
            work.measuring_phases, work, instance.family.load_dialect, connection(instance)
        )
        with collecting(COLLECTORS, sorted(names), target_of(instance), window(work)) as collector:
            load.run(spec, on_event=collector.on_event, limit_s=LIMIT_S)
            document = collector.document()
    assert set(document["observers"]) == names, document["missing"]
    assert json.loads(json.dumps(document)) == document
    late_s = {name: document[name]["late_s"] for name in names - {"plans", sched_waits.NAME}}
    assert all(0 <= value < document["window_s"] for value in late_s.values())
    in_order = [name for name in COLLECTORS if name in late_s]
    assert sorted(late_s, key=lambda name: late_s[name]) == in_order
    for section in ("threads", "states"):
        assert len(of_kind(document[section], "connection")) == CLIENTS
        assert of_kind(document[section], "observer")
    if profile.NAME in names:
        roots = {stack.partition(";")[0] for stack in document["profile"]["stacks"]}
        assert "connection" in roots
        assert document["profile"]["with_kernel"] in (True, False)


def of_kind(section: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [thread for thread in section["threads"] if thread["kind"] == kind]
