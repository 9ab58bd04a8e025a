"""Make measurements for hooks, without servers."""

from typing import Any, cast

from millrace.collect.collectors import Window
from millrace.databases.base import ServerClient
from millrace.loadgen.events import LoadResult
from millrace.trial.hooks import LiveServer, MeasurementContext, MeasurementHook
from millrace.trial.outputs import TrialOutputs
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import TrialSpec
from tests.support.made_events import mark
from tests.support.small_workload import driving
from tests.support.stored_records import result

BEGIN, END = mark("measure_started"), mark("measure_ended")

RESULT = LoadResult("8.0.12", ())


def live(client: object, role: str = "server") -> LiveServer:
    """Return a live server with a stand-in for its client."""
    connection = cast(Any, None)
    return LiveServer(
        role, cast(ServerClient, client), "test", connection, connection, lambda: None
    )


def measurement(*servers: LiveServer, **chosen: Any) -> MeasurementContext:
    """Return a measurement of driven clients, whose outputs have a record for each role."""
    outputs = TrialOutputs()
    for role in [each.role for each in servers] or ["server"]:
        (outputs.instances[role],) = result().instances
    workload = ResolvedWorkload(driving(), chosen)
    return MeasurementContext(
        TrialSpec("test/1", (), workload),
        servers,
        cast(Any, None),
        Window("measure", "measure", drives=True),
        outputs,
    )


def measured(of: MeasurementContext) -> dict[str, float]:
    """Return the measurements that hooks contributed, by name."""
    return {each.name: each.value for each in of.outputs.measurements}


def pass_edges(hook: MeasurementHook) -> None:
    """Pass both edges of the measured part to a hook, and let it contribute."""
    hook.on_event(BEGIN)
    hook.on_event(END)
    hook.contribute(RESULT)
