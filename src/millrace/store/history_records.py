"""The records of histories: ratios to a co-measured reference build, one point a version or commit,
and where their level moved.

    series ── points       by date, then in the order in which they were recorded
           └─ changes      where the level moved: a candidate until it is measured again

What is kept of a run is enough to find changes without it: points outlive the trials they are of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from millrace.levels import Level

ChangeState = Literal["candidate", "confirmed", "withdrawn"]


@dataclass(frozen=True)
class SeriesRecord:
    """What the points of a series have in common; ``id`` is a digest of all that tells it from
    other series.

    ``experiment`` and ``digest`` are name and digest of the experiment. The points are ratios in
    ``metric`` to the level ``reference`` of the compared ``factor``, at the levels ``held`` of the
    other factors. ``candidate`` is the level whose versions follow each other, where a run has
    several of them, else None. ``direction`` is the better one, ``higher`` or ``lower``;
    ``margin`` is that of the newest run.
    """

    id: str
    experiment: str
    digest: str
    factor: str
    reference: Level
    candidate: Level | None
    held: Mapping[str, Level]
    metric: str
    title: str
    unit: str
    direction: Literal["higher", "lower"]
    margin: float


@dataclass(frozen=True)
class StateRecord:
    """In which state of host and configuration a point was measured; ``id`` is a digest of both.

    ``facts`` have names in words and plain values; what is the same there was measured alike.
    """

    id: str
    host_id: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class PointRecord:
    """One version's ratio to the reference, with its interval (None for too few blocks).

    ``label`` is the version or commit, ``at_utc`` its date, ``level`` what the run called it (with
    aliases replaced), ``build`` the SHA-256 of its server's program where it is known. ``log_sd``
    is the standard deviation of the blocks' log-ratios. ``place`` is its place among the points
    of its run, ``state`` the id of a StateRecord.
    """

    label: str
    at_utc: str
    run_id: str
    place: int
    level: Level
    build: str | None
    ratio: float
    low: float | None
    high: float | None
    n_blocks: int
    log_sd: float | None
    state: str


@dataclass(frozen=True)
class History:
    """A series with its points in their order; ``examined`` is how many there were when changes
    were looked for."""

    series: SeriesRecord
    points: tuple[PointRecord, ...]
    examined: int = 0


@dataclass(frozen=True)
class Remeasured:
    """What a measurement of its own said about a change: after / before, the builds of the points
    ``before`` and ``after`` (their labels) in turns, with an interval that holds for any number of
    looks."""

    run_id: str
    before: str
    after: str
    ratio: float
    low: float | None
    high: float | None
    n_blocks: int
    verdict: str
    reason: str
    utc: str


@dataclass(frozen=True)
class ChangeRecord:
    """Where the level of a series moved; ``id`` stays the same however often it is found.

    ``label`` is that of the first point of the new level, which lies between the points
    ``earliest`` and ``latest``; ``ratio`` is new / old level as it was found among ``n_points``
    points of one state, which ``remeasured`` outranks. ``reason`` says why it was withdrawn, and is
    empty otherwise. ``note`` is whoever acknowledged it.
    """

    id: str
    series: str
    label: str
    earliest: str
    latest: str
    ratio: float
    low: float
    high: float
    n_points: int
    found_utc: str
    state: ChangeState = "candidate"
    reason: str = ""
    remeasured: Remeasured | None = None
    note: str | None = None


@dataclass(frozen=True)
class HistoryPart:
    """Points, each with the id of its series, and all that they refer to: what a run adds to
    histories, and how they travel. Changes are of these points."""

    series: tuple[SeriesRecord, ...] = ()
    states: tuple[StateRecord, ...] = ()
    points: tuple[tuple[str, PointRecord], ...] = ()
    changes: tuple[ChangeRecord, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """What became of a run's points: so many were ``added``, or ``replaced`` those of the same run
    with other blocks, or were there already as they are (``present``); ``taken`` counts those whose
    labels have points of other runs, by these runs."""

    added: int
    replaced: int
    present: int
    taken: Mapping[str, int]
