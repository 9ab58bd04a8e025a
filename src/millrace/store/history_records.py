"""Define the records of histories: ratios to a co-measured reference build, and level changes.

A series has a point of each version or commit, by date and then in the order of recording. A change
is a candidate until it is measured again. Points outlive their trials.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from millrace.levels import Level
from millrace.model.documents import exact
from millrace.store.records import Origin

ChangeState = Literal["candidate", "confirmed", "withdrawn"]


@dataclass(frozen=True)
class SeriesRecord:
    """A series of points; ``id`` is a digest of everything that distinguishes it from other series.

    ``experiment`` and ``digest`` are name and digest of the experiment. The points are ratios in
    ``metric`` to the level ``reference`` of the compared ``factor``, at these levels of the
    ``fixed_factors``. ``candidate`` is the level whose
    versions the series follows, where a run has several candidates, else None. ``direction`` is the
    better one, ``higher`` or ``lower``; ``margin`` is that of the newest run. The points of a
    series have one ``origin``: an imported series is another one than the local one of the same
    experiment, and so are its states and changes, whose ids begin with ``IMPORTED``.
    """

    id: str
    experiment: str
    digest: str
    factor: str
    reference: Level
    candidate: Level | None
    fixed_factors: Mapping[str, Level]
    metric: str
    title: str
    unit: str
    direction: Literal["higher", "lower"]
    margin: float
    origin: Annotated[Origin, Field(exclude=True)] = "local"


@dataclass(frozen=True)
class StateRecord:
    """The environment and configuration of a point's measurement; ``id`` is a digest of both.

    ``facts`` have names in words and plain values; points with equal facts are comparable.
    """

    id: str
    host_id: str
    facts: Mapping[str, object]


@dataclass(frozen=True)
class PointRecord:
    """A version's ratio to the reference, with its interval (None for too few blocks).

    ``label`` is the version or commit, ``at_utc`` its date, ``level`` its name in the run (with
    aliases replaced), ``build`` the SHA-256 of its server's program where it is known. ``log_sd``
    is the standard deviation of the blocks' log-ratios. ``place`` is its place among the points of
    its run, ``state`` the id of a StateRecord, ``origin`` that of its run.
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
    origin: Annotated[Origin, Field(exclude=True)] = "local"


@dataclass(frozen=True)
class History:
    """A series with its points in order; detection ``examined`` the first of them."""

    series: SeriesRecord
    points: tuple[PointRecord, ...]
    examined: int = 0


@dataclass(frozen=True)
class Remeasured:
    """The result of measuring a change again.

    It is the ratio after / before of the builds of the points ``before`` and ``after`` (their
    labels), measured in turns, with an interval valid for any number of looks.
    """

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
    """A level change of a series; ``id`` is the same every time the change is found.

    ``label`` is that of the first point of the new level, which lies between the points
    ``earliest`` and ``latest``; ``ratio`` is new / old level as found among ``n_points`` points of
    one state; ``remeasured`` takes precedence. ``reason`` says why the change was withdrawn, and is
    empty otherwise. ``note`` is the note of the user who acknowledged it.
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


@exact
@dataclass(frozen=True)
class HistoryPart:
    """Points with their series' ids, and all that they refer to: of a run, or in an archive."""

    series: tuple[SeriesRecord, ...] = ()
    states: tuple[StateRecord, ...] = ()
    points: tuple[tuple[str, PointRecord], ...] = ()
    changes: tuple[ChangeRecord, ...] = ()


IMPORTED = "imported-"
"""The beginning of the ids of imported series, states and changes, which no local one has."""


def as_imported(part: HistoryPart) -> HistoryPart:
    """Return a part of others, with series, states and changes that no local point refers to.

    What its author had imported stays apart from what was measured there.
    """
    return replace(
        part,
        series=tuple(replace(s, id=IMPORTED + s.id, origin="imported") for s in part.series),
        states=tuple(replace(each, id=IMPORTED + each.id) for each in part.states),
        points=tuple(
            (IMPORTED + of, replace(point, state=IMPORTED + point.state, origin="imported"))
            for of, point in part.points
        ),
        changes=tuple(
            replace(each, id=IMPORTED + each.id, series=IMPORTED + each.series)
            for each in part.changes
        ),
    )


@dataclass(frozen=True)
class Recording:
    """A run that has points, and their date."""

    run_id: str
    at_utc: str
    origin: Origin


@dataclass(frozen=True)
class Recorded:
    """The effect of recording a run's points: numbers of new, replaced and unchanged ones.

    ``taken`` counts, by run, points whose labels belong to other runs.
    """

    added: int
    replaced: int
    present: int
    taken: Mapping[str, int]
