"""Collect the plans of the workload's statements, each explained once after the window."""

from __future__ import annotations

import contextlib

from millrace.collect.model import CollectorResult, Target
from millrace.databases.client import Session
from millrace.databases.monitoring import Explainer
from millrace.errors import TrialFailed, Unavailable
from millrace.model.servers import InstalledServer

NAME = "plans"


def collector(target: Target) -> PlanCollector:
    """Create the collector. Raise Unavailable where the server does not report its version."""
    explainer = target.client.family.monitoring.explainer(_version_of(target))
    return PlanCollector(target, explainer)


def _version_of(target: Target) -> str:
    server = target.client.server
    if isinstance(server, InstalledServer):
        return server.version
    try:
        return target.client.version()
    except TrialFailed as error:
        raise Unavailable(error.message, hint=error.hint) from error


class PlanCollector:
    """A collector that works after the measured part only; see collect.model.Collector."""

    def __init__(self, target: Target, explainer: Explainer) -> None:
        self._target = target
        self._explainer = explainer

    def begin(self) -> None:
        pass

    def end(self) -> None:
        pass

    def result(self) -> CollectorResult:
        plans = {}
        with contextlib.ExitStack() as opened:
            session: Session | None = None
            for name, sql in self._target.statements.items():
                if session is None or not session.is_open:
                    session = self._target.session(self._target.database)
                    opened.callback(session.close)
                plans[name] = self._explainer.explain(session, sql).replace(sql=sql)
        return CollectorResult({NAME: plans})

    def close(self) -> None:
        pass
