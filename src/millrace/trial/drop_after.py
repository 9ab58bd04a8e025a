"""Drop the database of a trial when all else is measured, and time it."""

import time
from contextlib import ExitStack

from millrace.model import measurements as names
from millrace.trial.file_removal import open_trace, removal_between
from millrace.trial.hooks import LiveServer
from millrace.trial.outputs import TrialOutputs


def drop(server: LiveServer, outputs: TrialOutputs, limit_s: float) -> None:
    """Drop the database, and measure the time until the server answers. Raise TrialFailed.

    Where millrace may trace the server, the time of removing files is measured apart. Servers that
    remove files in the background may continue after their answer, which no time here includes.
    """
    with ExitStack() as opened:
        trace = open_trace(server, outputs, opened)
        if trace is not None:
            trace.start()
        began_s = time.monotonic()
        server.client.family.administration.drop_database(server.client, server.database, limit_s)
        ended_s = time.monotonic()
        outputs.add_measurement(names.DROP_S, ended_s - began_s, server.role)
        if trace is None:
            return
        trace.stop()
        calls = trace.calls()
        if calls is not None:
            removal_s = removal_between(calls, began_s, ended_s)
            own_s = max(ended_s - began_s - removal_s, 0.0)
            outputs.add_measurement(names.DROP_REMOVAL_S, removal_s, server.role)
            outputs.add_measurement(names.DROP_OWN_S, own_s, server.role)
