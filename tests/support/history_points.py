"""Build histories for tests: plain ones from a list of ratios, and runs to be recorded."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from millrace.store.history_records import (
    ChangeRecord,
    History,
    HistoryPart,
    PointRecord,
    SeriesRecord,
    StateRecord,
)
from millrace.store.records import StoredRun
from tests.support.builders import RunBuilder, noisy

REFERENCE, CANDIDATE = "mysql-5.6.24", "mysql-5.7.22"
NOW = "2026-05-01T12:00:00Z"

SERIES = SeriesRecord(
    id="5e41e5000001",
    experiment="nightly",
    digest="d1ge57",
    factor="server",
    reference=REFERENCE,
    candidate=None,
    fixed_factors={"configuration": "default", "clients": 8},
    metric="throughput",
    title="throughput",
    unit="transactions/s",
    direction="higher",
    margin=0.02,
)
STATE = StateRecord("57a7e0000001", "host-1", {"kernel release": "6.1", "data": "nodes-1"})
OTHER_STATE = StateRecord("57a7e0000002", "host-1", {"kernel release": "6.2", "data": "nodes-1"})
STATES = {each.id: each for each in (STATE, OTHER_STATE)}


def point(number: int, ratio: float, **changes: Any) -> PointRecord:
    """Return the point ``v<number>``, with a run and a build of its own."""
    year, month, day = 2000 + number // 336, 1 + number // 28 % 12, 1 + number % 28
    made = PointRecord(
        label=f"v{number}",
        at_utc=f"{year:04}-{month:02}-{day:02}T00:00:00Z",
        run_id=f"run-{number}",
        place=0,
        level=f"build-{number}",
        build=f"sha-{number}",
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        n_blocks=5,
        log_sd=0.01,
        state=STATE.id,
    )
    return replace(made, **changes)


def history(
    ratios: Sequence[float], states: Sequence[str] | None = None, series: SeriesRecord = SERIES
) -> History:
    """Return points v0, v1 ... with these ratios; ``states`` are ids, one per point."""
    points = [point(number, ratio) for number, ratio in enumerate(ratios)]
    if states is not None:
        points = [replace(p, state=s) for p, s in zip(points, states, strict=True)]
    return History(series, tuple(points))


def stepping(
    *steps: tuple[int, float], n: int = 80, seed: int = 1, sd: float = 0.01
) -> list[float]:
    """Return ratios around 1 with ``sd``, whose level is multiplied from each index on."""
    logs = np.random.default_rng(seed).normal(0, sd, n)
    for index, ratio in steps:
        logs[index:] += math.log(ratio)
    return [float(value) for value in np.exp(logs)]


def part(*points: PointRecord, series: SeriesRecord = SERIES) -> HistoryPart:
    """Return these points of a series, with the states that they refer to."""
    states = tuple(s for s in (STATE, OTHER_STATE) if s.id in {p.state for p in points})
    return HistoryPart((series,), states, tuple((series.id, each) for each in points))


def part_of(made: History, changes: Sequence[ChangeRecord] = ()) -> list[HistoryPart]:
    """Return each run's contribution to the store, in the order of its points."""
    return [
        HistoryPart((made.series,), (STATES[each.state],), ((made.series.id, each),))
        for each in made.points
    ]


def change(
    index: int, ratio: float = 0.9, *, width: int = 0, series: SeriesRecord = SERIES, **more: Any
) -> ChangeRecord:
    """Return a candidate change at the point ``v<index>``, within ``width`` points."""
    made = ChangeRecord(
        id=f"c{index}-{series.id}",
        series=series.id,
        label=f"v{index}",
        earliest=f"v{index - width}",
        latest=f"v{index + width}",
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        n_points=80,
        found_utc=NOW,
    )
    return replace(made, **more)


def run_of(
    run_id: str,
    *,
    ratio: float = 0.9,
    blocks: int = 5,
    seed: int = 1,
    candidates: Sequence[str] = (CANDIDATE,),
    created_utc: str = "2026-01-05T09:59:00Z",
    builder: Mapping[str, Any] | None = None,
) -> StoredRun:
    """Return a run of the load-data workload, with candidates ``ratio`` as fast as the base."""
    load_s = {REFERENCE: noisy(3.0, blocks, seed=seed)}
    for number, candidate in enumerate(candidates, start=1):
        load_s[candidate] = noisy(3.0 / ratio, blocks, seed=seed + 100 * number)
    return renamed(RunBuilder(load_s, **(builder or {})).build(), run_id, created_utc)


def renamed(stored: StoredRun, run_id: str, created_utc: str) -> StoredRun:
    """Return the run under another id, as trials' ids are unique in a store."""
    return replace(
        stored,
        run=replace(stored.run, id=run_id, created_utc=created_utc),
        trials=tuple(replace(each, id=f"{run_id}/{each.id}") for each in stored.trials),
        attempts=tuple(
            replace(each, trial_id=f"{run_id}/{each.trial_id}") for each in stored.attempts
        ),
    )
