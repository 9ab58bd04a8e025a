"""Collect the plans of the workload's statements, each explained once after the window.

Within the window an EXPLAIN would cost the clients time, and could bring in statistics of its own.
"""

import contextlib

from millrace.collect.model import CollectorResult, MarkCollector, Target
from millrace.databases.client import Session
from millrace.errors import TrialFailed, Unavailable
from millrace.model.servers import InstalledServer

NAME = "plans"


def collector(target: Target) -> MarkCollector[None]:
    """Create the collector. Raise Unavailable where the server does not report its version."""
    explainer = target.client.family.monitoring.explainer(_version_of(target))

    def explain(_before: None, _after: None) -> CollectorResult:
        plans = {}
        with contextlib.ExitStack() as opened:
            session: Session | None = None
            for name, sql in target.statements.items():
                if session is None or not session.is_open:
                    session = target.session(target.database)
                    opened.callback(session.close)
                plans[name] = explainer.explain(session, sql).replace(sql=sql)
        return CollectorResult({NAME: plans})

    return MarkCollector(lambda: None, explain)


def _version_of(target: Target) -> str:
    server = target.client.server
    if isinstance(server, InstalledServer):
        return server.version
    try:
        return target.client.version()
    except TrialFailed as error:
        raise Unavailable(error.message, hint=error.hint) from error
