"""The JSON document of histories, version ``millrace.history/2``.

Within version 2 keys are only added. ``docs/history.md`` describes the document, and
``report/schema/history-2.schema.json`` is generated from here (a test compares them).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from millrace.analysis.compare.model import Verdict
from millrace.analysis.history.overview import ChangeGroup, SeriesView
from millrace.levels import Level
from millrace.model.measurements import Direction
from millrace.report.common.json_parts import From, Part, TextOrNull, document_text, part
from millrace.report.history.tables import group_text
from millrace.store.history_records import ChangeState, Remeasured, StateRecord
from millrace.store.records import Origin

Version = Literal["millrace.history/2"]
VERSION: Version = "millrace.history/2"


class PointPart(Part):
    """A version's ratio to the reference. Null: not known.

    `state` is the id of the environment that it was measured in, `build` the SHA-256 of the
    server's program. `origin` says whether its run was measured here (`local`) or `imported`.
    """

    label: str
    date_utc: Annotated[str, From("at_utc")]
    run: Annotated[str, From("run_id")]
    origin: Origin
    level: Level
    build: str | None
    ratio: float
    low: float | None
    high: float | None
    n_blocks: int
    state: str


class EnvironmentChangePart(Part):
    """A change of the environment from the point `index` (from 0) on."""

    index: int
    label: str
    changes: list[str]


class ChangePart(Part):
    """A place where the level moved; only what is confirmed is a fact.

    Ratios are new level / old level: `ratio`, `low` and `high` those of the measurement that
    confirmed it, else `found_ratio`, `found_low` and `found_high`, from `n_points` points of the
    history.

    `index` and `label` are those of the first point of the new level; `within` are the labels of
    all points that may be. `reason` says why it was withdrawn, `note` who acknowledged it;
    `remeasured` is what a measurement of its own said, after / before. Null: there is none.
    """

    WITHIN = "change"

    id: str
    index: int | None
    label: str
    within: list[str]
    state: ChangeState
    ratio: float
    low: float
    high: float
    verdict: Verdict
    found_ratio: Annotated[float, From("change.ratio")]
    found_low: Annotated[float, From("change.low")]
    found_high: Annotated[float, From("change.high")]
    n_points: int
    found_utc: str
    reason: TextOrNull
    note: str | None
    remeasured: Remeasured | None


class SeriesPart(Part):
    """A series: ratios in one metric to the level `reference` of `factor`.

    `candidate` is null where runs have one candidate, or label them by level. `unexamined` points
    came after the last look for changes; `too_few_points` leave open whether a level moved. Its
    points, states and changes have one `origin`; nothing of an `imported` series was measured here.
    """

    WITHIN = "series"

    id: str
    name: str
    origin: Origin
    experiment: str
    digest: str
    factor: str
    reference: Level
    candidate: Level | None
    fixed_factors: dict[str, Level]
    metric: str
    title: str
    unit: str
    direction: Direction
    margin: float
    unexamined: int
    too_few_points: bool
    points: list[PointPart]
    environment_changes: list[EnvironmentChangePart]
    changes: list[ChangePart]


class GroupPart(Part):
    """Changes (by id) of several series at one label, of `n_series` that have a point there.

    `least` and `most` are fractions, negative where it is for the worse.
    """

    label: str
    origin: Origin
    sentence: Annotated[str, From(group_text)]
    changes: Annotated[list[str], From(lambda group: [each.change.id for each in group.changes])]
    n_series: int
    least: float
    most: float


class StatePart(Part):
    """A state of host and configuration: what differs between two of them is a break."""

    id: str
    host: Annotated[str, From("host_id")]
    facts: dict[str, Any]


class HistoryDocument(Part):
    """Histories, and what is known of their changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, title=VERSION)

    document_schema: Version = Field(alias="schema")
    groups: list[GroupPart]
    series: list[SeriesPart]
    states: list[StatePart]


def as_json(
    series: Sequence[SeriesView], groups: Sequence[ChangeGroup], states: Mapping[str, StateRecord]
) -> str:
    """Return the series and the states they refer to as indented JSON text, with a newline."""
    used = dict.fromkeys(point.state for one in series for point in one.points)
    found = {"groups": groups, "series": series, "states": [states[state] for state in used]}
    return document_text(part(HistoryDocument, None, schema=VERSION, **found))
