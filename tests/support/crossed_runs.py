"""Build a run with crossed factors: two tests, 1 and 8 clients, the binary log synced or not."""

from collections.abc import Callable
from typing import Any

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from tests.support.query_runs import Levels, QueryRun

BASE, CANDIDATE = "mysql-5.6.24", "mysql-5.7.22"
BINLOG = "options.sync_binlog"


def analysed(ratio: Callable[[Levels], float], **also: Any) -> RunAnalysis:
    """Return the analysis of one candidate with this ratio; ``also`` changes the QueryRun."""

    def rate(levels: Levels) -> float:
        return 1000.0 * (ratio(levels) if levels["server"] == CANDIDATE else 1.0)

    run = QueryRun(
        **{
            "servers": (BASE, CANDIDATE),
            "tests": ("reads", "writes"),
            "clients": (1, 8),
            "factors": {BINLOG: (0, 1)},
            "blocks": 8,
            "rate": rate,
            **also,
        }
    )
    return compare_run(run.build())
