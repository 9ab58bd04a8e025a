"""Define the records of histories: ratios to a reference build of the same run, and changes.

A series has one point per version or commit, ordered by date and then by recording. A level change
is a candidate until it is measured again. Points stay when their run is removed.
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

    ``experiment`` and ``digest`` are the name and digest of the experiment. The points are ratios
    of ``metric`` to the level ``reference`` of the compared ``factor``, at the levels of the
    ``fixed_factors``. ``candidate`` is the level whose versions the series follows, or None if a
    run has only one candidate. ``direction`` is the better direction; ``margin`` is the newest
    run's. All points have the same ``origin``: imported and local points of the same experiment are
    in different series. The ids of imported series, states and changes begin with ``IMPORTED``.
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

    ``facts`` are plain values by readable names; points with equal facts are comparable.
    """

    id: str
    host_id: str
    facts: Mapping[str, object]


@dataclass(frozen=True)
class PointRecord:
    """A version's ratio to the reference, with its interval (None for too few blocks).

    ``label`` is the version or commit, ``at_utc`` its date, ``level`` its level in the run (with
    aliases replaced), ``build`` the SHA-256 of its server program if known. ``log_sd`` is the
    standard deviation of the blocks' log-ratios. ``place`` is the point's position among those of
    its run, ``state`` the id of a StateRecord, ``origin`` the origin of the run.
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
    """A series with its points in order; detection has ``examined`` this number of first points."""

    series: SeriesRecord
    points: tuple[PointRecord, ...]
    examined: int = 0


@dataclass(frozen=True)
class Remeasured:
    """The result of measuring a change again.

    ``before`` and ``after`` are labels of points. ``ratio`` is after / before, from trials of both
    builds in the same blocks; its interval is valid for any number of looks.
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

    ``label`` is the first point of the new level; the true position is from the point ``earliest``
    to ``latest``. ``ratio`` is the new level over the old, estimated from ``n_points`` points of
    one state; ``remeasured``, if present, is more reliable. ``reason`` is why the change was
    withdrawn, or empty. ``note`` is the user's acknowledgement, or None.
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
    """Points with the ids of their series, and everything they refer to: of a run or an archive."""

    series: tuple[SeriesRecord, ...] = ()
    states: tuple[StateRecord, ...] = ()
    points: tuple[tuple[str, PointRecord], ...] = ()
    changes: tuple[ChangeRecord, ...] = ()


IMPORTED = "imported-"
"""The prefix of the ids of imported series, states and changes; no local id has it."""


def as_imported(part: HistoryPart) -> HistoryPart:
    """Return a part of an archive with origin ``imported`` and the prefix in all ids.

    The prefix is added even to ids that have it, because the archive's author may have imported
    points too.
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
    """A run that has points, and their date ``at_utc``."""

    run_id: str
    at_utc: str
    origin: Origin


@dataclass(frozen=True)
class Recorded:
    """The effect of recording a run's points: the numbers of new, replaced and unchanged points.

    ``taken`` counts the points that were not added because another run has their label, by run.
    """

    added: int
    replaced: int
    present: int
    taken: Mapping[str, int]
