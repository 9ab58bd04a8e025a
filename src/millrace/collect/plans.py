"""Collect the plans of the workload's statements.

Each statement is explained once, after the window. One that cannot be explained has an error
instead of rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from millrace.collect.model import Collector, Target
from millrace.collect.sessions import session_of
from millrace.databases.client import Session
from millrace.databases.monitoring import Explainer
from millrace.errors import TrialFailed, Unavailable
from millrace.model.servers import InstalledServer

NAME = "plans"
COST = "Nothing while clients are measured: statements are explained after the window."


def collector(target: Target) -> Collector:
    """Create the collector of the plans of ``target.statements``.

    Raise Unavailable where the server does not report its version.
    """
    explainer = target.instance.family.monitoring.explainer(_version_of(target))
    return _PlansObserver(target, explainer)


def _version_of(target: Target) -> str:
    server = target.instance.server
    if isinstance(server, InstalledServer):
        return server.version
    try:
        return target.instance.version()
    except TrialFailed as error:
        raise Unavailable(error.message, hint=error.hint) from error


class _PlansObserver:
    def __init__(self, target: Target, explainer: Explainer) -> None:
        self._target = target
        self._explainer = explainer

    def begin(self) -> None:
        pass

    def end(self) -> None:
        pass

    def result(self) -> Mapping[str, Any]:
        told = {}
        with contextlib.ExitStack() as opened:
            session: Session | None = None
            for name, sql in self._target.statements.items():
                if session is None or not session.is_open:
                    session = session_of(self._target, self._target.database)
                    opened.callback(session.close)
                told[name] = {"sql": sql, **self._explainer.explain(session, sql)}
        return {"plans": told}

    def close(self) -> None:
        pass
