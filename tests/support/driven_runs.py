"""Build small runs of driven clients."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.common.tables import Table
from tests.support.query_runs import Levels, QueryRun, nothing_else
from tests.support.seconds import Series, events

TWO = ("mysql-5.6.24", "mysql-8.0.12")


def few(also: Any = nothing_else, **changes: Any) -> RunAnalysis:
    return compare_run(QueryRun(TWO, ("point-query",), (8,), 3, also=also, **changes).build())


def falling(
    falls: Callable[[str, int], bool],
    servers: Sequence[str] = TWO,
    tests: Sequence[str] = ("point-query",),
    *,
    blocks: int = 5,
    n_seconds: int = 30,
    **changes: Any,
) -> RunAnalysis:
    """Return a run in which some trials lose a fifth of their throughput, by server and block."""

    def series(levels: Levels, block: int) -> Series:
        name = f"{levels['server']}{levels['test']}{block}".encode()
        noise = 0.01 * np.random.default_rng(list(name)).standard_normal(n_seconds)
        shape = 1 - 0.2 * falls(str(levels["server"]), block) * np.arange(n_seconds) / n_seconds
        return events(list(14_000 * (shape + noise)), warmup=[14_000.0] * 5)

    return compare_run(QueryRun(servers, tests, (8,), blocks, series=series, **changes).build())


def falling_candidate(unsteady: int = 0, **changes: Any) -> RunAnalysis:
    """Return five blocks, in this many of which the candidate's throughput falls."""
    return falling(lambda server, block: server == TWO[1] and block < unsteady, **changes)


def rows(table: Table | None) -> list[tuple[str, ...]]:
    assert table is not None
    return [row.cells for section in table.sections for row in section.rows]
