"""Look published figures up, by the conditions under which a server was measured.

A study has either ``servers``, with values by configuration, or ``cells``, with comparisons and the
conditions of each. A server belongs to a published one of its family and series.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Conditions:
    """The conditions of a measurement: levels by factor, parameters and effective variables."""

    family: str
    version: str
    levels: Mapping[str, Any]
    parameters: Mapping[str, Any]
    variables: Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure as it was published, before it is related to another one.

    ``version`` is the published server's own name. ``ratios`` are the lowest and the highest
    relative throughput, to ``relative_to``; None where only a value was published.
    """

    version: str
    value: float | None = None
    ratios: tuple[float, float] | None = None
    relative_to: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Study:
    """A study: its name, title and host, and its ``figures`` as its file has them."""

    name: str
    title: str
    host: str
    figures: Mapping[str, Any]

    def find(self, metric: str, conditions: Conditions) -> Figure | None:
        """Return the figure for a metric, by name, under these conditions."""
        if "cells" in self.figures:
            return _find_cell(self.figures, metric, conditions)
        return _find_value(self.figures, metric, conditions)


def study_names() -> tuple[str, ...]:
    """Return the names of the studies that an experiment may name, sorted."""
    files = resources.files("millrace.studies").iterdir()
    texts = [file.read_text("utf-8") for file in files if file.name.endswith(".toml")]
    return tuple(sorted(str(tomllib.loads(text)["name"]) for text in texts))


def load_study(name: str) -> Study | None:
    """Return a study by its name; None where there is none of that name."""
    file = resources.files("millrace.studies") / f"{name.lower()}.toml"
    if not file.is_file():
        return None
    figures = tomllib.loads(file.read_text("utf-8"))
    return Study(figures["name"], figures["title"], figures["host"], figures)


def _find_value(study: Mapping[str, Any], metric: str, conditions: Conditions) -> Figure | None:
    """Return a value of a study of values by server and configuration."""
    levels = conditions.levels
    if any(levels.get(factor, level) != level for factor, level in study["only"].items()):
        return None
    configuration = str(levels.get("configuration", "default"))
    for published in study["servers"]:
        if _is_of_series(published, conditions):
            for key in (configuration, "any"):
                figures = published.get(key, {})
                if metric in figures:
                    note = figures.get("note")
                    return Figure(published["name"], float(figures[metric]), note=note)
    return None


def _find_cell(study: Mapping[str, Any], metric: str, conditions: Conditions) -> Figure | None:
    """Return the first cell of a study of comparisons whose every condition holds."""
    if metric != study["metric"]:
        return None
    known = {**conditions.parameters, **conditions.levels}
    for cell in study["cells"]:
        if (
            _is_of_series(cell["server"], conditions)
            and _hold(cell["where"], known)
            and _hold(cell.get("variables", {}), conditions.variables)
        ):
            name = cell["server"]["name"]
            return Figure(name, None, _ratios(cell), cell["relative_to"], note=cell.get("note"))
    return None


def _hold(conditions: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Tell whether each condition names what is known, or lists it; case does not matter."""
    return all(
        str(known.get(name)).casefold()
        in {str(one).casefold() for one in (wanted if isinstance(wanted, list) else [wanted])}
        for name, wanted in conditions.items()
    )


def _ratios(cell: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the lowest and highest relative throughput: as published, or a time's inverse."""
    if "ratio" in cell:
        ratios = _ends(cell["ratio"])
    elif "slower" in cell:
        least, most = _ends(cell["slower"])
        ratios = (1 / most, 1 / least)
    else:
        return None
    return ratios


def _ends(number: float | list[float]) -> tuple[float, float]:
    ends = number if isinstance(number, list) else [number]
    return float(min(ends)), float(max(ends))


def _is_of_series(published: Mapping[str, str], conditions: Conditions) -> bool:
    is_family = published["family"] == conditions.family
    return is_family and published["series"] == _series(conditions.version)


def _series(version: str) -> str:
    """``5.6`` of ``5.6.24``, ``10.2`` of ``10.2.11-MariaDB``."""
    return ".".join(version.split(".")[:2])
