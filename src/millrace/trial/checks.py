"""Check after a measurement that the conditions of the workload still hold."""

from collections.abc import Iterator
from functools import partial

from millrace.errors import TrialFailed
from millrace.shown_text import shown_line
from millrace.trial.hooks import LiveServer
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.steps import Step
from millrace.trial.time_limits import scan_limit_s
from millrace.workloads.definition import Check

_SHOWN_ROWS = 3
_SHOWN_CHARACTERS = 200


def checking_steps(workload: ResolvedWorkload, server: LiveServer) -> Iterator[Step]:
    """Yield a step for each check of the workload, which fails where the server returns rows."""
    for check in workload.checked.checks:
        action = partial(_check, check, workload, server)
        yield Step(f"check_{check.name}", action, scan_limit_s(workload))


def _check(check: Check, workload: ResolvedWorkload, server: LiveServer, limit_s: float) -> None:
    sql = check.query(workload.values)
    administration = server.client.family.administration
    rows = administration.first_rows(server.client, server.database, sql, _SHOWN_ROWS + 1, limit_s)
    if rows:
        shown = ", ".join(f"({', '.join(row)})" for row in rows[:_SHOWN_ROWS])
        more = " and more" if len(rows) > _SHOWN_ROWS else ""
        raise TrialFailed(
            f"the condition {check.name} is violated after the run ({check.title}): the server "
            f"returns {shown_line(shown)[:_SHOWN_CHARACTERS]}{more}",
            hint="look at the server's error log: committed transactions left tables that "
            "contradict each other",
        )
