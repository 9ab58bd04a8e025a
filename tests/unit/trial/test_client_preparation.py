"""Test how often tables are read before clients are driven: until nothing more comes from disk."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace.databases.base import PoolStatus, TableSize
from millrace.trial import client_preparation, measurements
from millrace.trial.buffer_pool import CACHED_READS
from millrace.trial.client_preparation import ClientPreparation

MANY = 10 * CACHED_READS
# Tables with holes: their files are larger than what is read of them.
TABLE = TableSize("t", "InnoDB", data_bytes=1000, index_bytes=0, is_pooled=True)


def passes(
    monkeypatch: pytest.MonkeyPatch, reads: Sequence[int], *, cache_mode: str = "cached"
) -> int:
    """Return the number of passes over the tables.

    ``reads`` are the pages of each possible pass, half of them read ahead.
    """
    left = list(reads)
    seen = SimpleNamespace(reads=0, ahead=0)

    def run_phases(*_: Any) -> None:
        pages = left.pop(0)
        seen.reads += pages // 2
        seen.ahead += pages - pages // 2

    def pool_status(_client: object) -> PoolStatus:
        return PoolStatus(
            total_bytes=10_000, data_bytes=500, reads=seen.reads, read_requests=10 * seen.reads,
            read_ahead=seen.ahead,
        )  # fmt: skip

    family = SimpleNamespace(
        storage=SimpleNamespace(pool_status=pool_status),
        administration=SimpleNamespace(table_sizes=lambda _client, _database: (TABLE,)),
    )
    server = SimpleNamespace(client=SimpleNamespace(family=family), database="db")
    workload = SimpleNamespace(
        warming_phases=("warm",), client_settings=SimpleNamespace(cache_mode=cache_mode)
    )
    monkeypatch.setattr(client_preparation, "run_phases", run_phases)
    monkeypatch.setattr(measurements, "step_records", lambda _result: [])
    monkeypatch.setattr(client_preparation, "limit_s", lambda *_: 1.0)
    prepared = ClientPreparation(*(cast("Any", each) for each in (workload, server, None, None)))
    (warm, _) = prepared.warming_steps()
    warm.action(1.0)
    return len(reads) - len(left)


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ([0, 0, 0], 1),
        ([MANY, 0, 0], 2),
        ([MANY, MANY, 0], 3),
        ([MANY, MANY, MANY, 0], 3),  # more would not help
        ([CACHED_READS, 0], 1),
        ([CACHED_READS + 2, 0], 2),  # read ahead, half of them
    ],
)
def test_tables_are_read_until_a_pass_reads_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch, reads: list[int], expected: int
) -> None:
    assert passes(monkeypatch, reads) == expected


def test_one_pass_does_where_tables_need_not_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes(monkeypatch, [MANY, 0], cache_mode="any") == 1
