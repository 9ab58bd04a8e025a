"""Look up published figures by the conditions of a measurement.

A study has either ``servers``, with values by configuration, or ``cells``, each with a comparison
and its conditions. A measured server matches a published one of the same family and series.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from pydantic import BaseModel, ConfigDict

Value = str | int | float | bool
Ends = float | tuple[float, float]
"""A number, or the lowest and highest number of a range."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of a measurement: levels by factor, parameters and effective variables."""

    family: str
    version: str
    levels: Mapping[str, Value]
    parameters: Mapping[str, Value]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Figure:
    """A published figure.

    ``version`` is the published server's name. ``ratios`` are the lowest and the highest throughput
    relative to ``relative_to``; None if only a value was published.
    """

    version: str
    value: float | None = None
    ratios: tuple[float, float] | None = None
    relative_to: str | None = None
    note: str | None = None


class PublishedServer(BaseModel):
    """A published server; each extra key is a configuration (or ``any``) with its figures."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, float | str]]

    name: str
    family: str
    series: str

    def is_of(self, conditions: Conditions) -> bool:
        series = ".".join(conditions.version.split(".")[:2])  # 10.2 of 10.2.11-MariaDB
        return (self.family, self.series) == (conditions.family, series)


class Cell(BaseModel, extra="forbid"):
    """A published comparison and its conditions.

    ``ratio`` is a relative throughput, ``slower`` a relative time. ``metric`` is empty for the
    study's metric.
    """

    server: PublishedServer
    metric: str = ""
    relative_to: str
    where: dict[str, Value | list[Value]]
    variables: dict[str, Value | list[Value]] = {}
    ratio: Ends | None = None
    slower: Ends | None = None
    note: str | None = None

    @property
    def ratios(self) -> tuple[float, float] | None:
        """Return the lowest and highest relative throughput; None if none was published.

        A relative throughput is the inverse of a relative time.
        """
        if self.ratio is not None:
            return _ends(self.ratio)
        if self.slower is not None:
            least, most = _ends(self.slower)
            return 1 / most, 1 / least
        return None


class Hours(BaseModel, extra="forbid"):
    """A published server's throughput in one long run, by hour."""

    name: str
    values: dict[int, float]


class Study(BaseModel, extra="forbid"):
    """A study: ``servers`` with values at the levels ``only``, or ``cells`` of ``metric``."""

    name: str
    title: str
    host: str
    only: dict[str, Value] = {}
    servers: list[PublishedServer] = []
    metric: str = ""
    cells: list[Cell] = []
    hours: list[Hours] = []

    def find(self, metric: str, conditions: Conditions) -> Figure | None:
        """Return the published figure of a metric under these conditions; None if there is none."""
        find = self._find_cell if self.cells else self._find_value
        return find(metric, conditions)

    def _find_value(self, metric: str, conditions: Conditions) -> Figure | None:
        levels = conditions.levels
        if any(levels.get(factor, level) != level for factor, level in self.only.items()):
            return None
        configuration = str(levels.get("configuration", "default"))
        for published in self.servers:
            if published.is_of(conditions):
                for key in (configuration, "any"):
                    figures = published.__pydantic_extra__.get(key, {})
                    if metric in figures:
                        note = figures.get("note")
                        value = float(figures[metric])
                        return Figure(
                            published.name, value, note=None if note is None else str(note)
                        )
        return None

    def _find_cell(self, metric: str, conditions: Conditions) -> Figure | None:
        """Return the figure of the first cell whose conditions are all met; None if none is."""
        known = {**conditions.parameters, **conditions.levels}
        cells = [each for each in self.cells if metric == (each.metric or self.metric)]
        for cell in cells:
            holds = _hold(cell.where, known) and _hold(cell.variables, conditions.variables)
            if holds and cell.server.is_of(conditions):
                name = cell.server.name
                return Figure(name, None, cell.ratios, cell.relative_to, note=cell.note)
        return None


def study_names() -> tuple[str, ...]:
    """Return the names of the studies that an experiment may name, sorted."""
    files = resources.files("millrace.studies").iterdir()
    texts = [file.read_text("utf-8") for file in files if file.name.endswith(".toml")]
    return tuple(sorted(str(tomllib.loads(text)["name"]) for text in texts))


def load_study(name: str) -> Study | None:
    """Return the study of this name; None if there is none."""
    file = resources.files("millrace.studies") / f"{name.lower()}.toml"
    if not file.is_file():
        return None
    return Study.model_validate(tomllib.loads(file.read_text("utf-8")))


def _hold(conditions: Mapping[str, Value | list[Value]], known: Mapping[str, Value]) -> bool:
    """Return whether each condition has or lists the known value, ignoring case."""
    return all(
        str(known.get(name)).casefold()
        in {str(one).casefold() for one in (wanted if isinstance(wanted, list) else [wanted])}
        for name, wanted in conditions.items()
    )


def _ends(number: Ends) -> tuple[float, float]:
    ends = number if isinstance(number, tuple) else (number,)
    return min(ends), max(ends)
