"""Published figures of a study, set beside the user's own where the version series match."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from millrace.analysis.metrics import Metric
from millrace.analysis.model import Group, InstanceAnalysis, RunAnalysis, TreatmentAnalysis
from millrace.store.records import ServerRecord


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure, for the treatment it stands beside.

    ``version`` is the published server's own name ("MySQL 5.6.34"). ``value`` is in the metric's
    unit, None where only a comparison was published. ``ratio`` is candidate / base, with its upper
    end in ``ratio_high`` where a range was published; both are to ``relative_to``, another
    published server: the one of the base's series where that is known. None where there is none, or
    where what was published is contradictory, which ``note`` says.
    """

    treatment_id: str
    version: str
    metric: Metric
    value: float | None
    ratio: float | None
    ratio_high: float | None
    relative_to: str | None
    note: str | None


@dataclass(frozen=True)
class PublishedStudy:
    """The study an experiment repeats, and its figures that match a treatment of the run."""

    name: str
    title: str
    host: str
    figures: tuple[PublishedFigure, ...]


def study_names() -> tuple[str, ...]:
    """The studies that an experiment may name, sorted."""
    files = (resources.files("millrace.report") / "published").iterdir()
    texts = [file.read_text("utf-8") for file in files if file.name.endswith(".toml")]
    return tuple(sorted(str(tomllib.loads(text)["name"]) for text in texts))


def published_beside(analysis: RunAnalysis) -> PublishedStudy | None:
    """The study's figures that match the run, in the order of metrics and treatments.

    None where the experiment names no study, or one that millrace does not have.
    """
    name = analysis.run.spec.get("published")
    study = _load(str(name)) if name else None
    if study is None:
        return None
    figures = tuple(
        figure
        for metric in analysis.metrics
        for group in analysis.groups
        for figure in _of_group(study, group, metric, analysis.run.spec.get("parameters", {}))
    )
    return PublishedStudy(study["name"], study["title"], study["host"], figures)


def _load(name: str) -> Mapping[str, Any] | None:
    file = resources.files("millrace.report") / "published" / f"{name.lower()}.toml"
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else None


@dataclass(frozen=True)
class _Found:
    """A figure before it is related to the base's."""

    version: str
    value: float | None = None
    ratios: tuple[float, float] | None = None
    relative_to: str | None = None
    note: str | None = None


def _of_group(
    study: Mapping[str, Any], group: Group, metric: Metric, parameters: Mapping[str, Any]
) -> list[PublishedFigure]:
    found = {t.id: _find(study, t, metric, parameters) for t in group.treatments}
    base = next((found[t.id] for t in group.treatments if t.is_base), None)
    return [
        _figure(treatment_id, metric, match, base)
        for treatment_id, match in found.items()
        if match is not None
    ]


def _figure(
    treatment_id: str, metric: Metric, match: _Found, base: _Found | None
) -> PublishedFigure:
    low, high, relative_to = None, None, match.relative_to
    if match.value is not None and base is not None and base.value is not None:
        low, relative_to = match.value / base.value, base.version
    elif match.ratios is not None:
        low, high = match.ratios
        known = base is not None and base.relative_to == match.relative_to and base.ratios
        if base is not None and known:
            # Both were compared with the same server, so they compare with each other.
            low, high = low / known[1], high / known[0]
            relative_to = base.version
    return PublishedFigure(
        treatment_id=treatment_id,
        version=match.version,
        metric=metric,
        value=match.value,
        ratio=low,
        ratio_high=None if high == low else high,
        relative_to=relative_to,
        note=match.note,
    )


def _find(
    study: Mapping[str, Any],
    treatment: TreatmentAnalysis,
    metric: Metric,
    parameters: Mapping[str, Any],
) -> _Found | None:
    """What the study has for the treatment's series under its conditions."""
    instance = next((i for i in treatment.instances if i.role == "server"), None)
    if instance is None:
        return None
    if "cells" in study:
        return _find_cell(study, treatment, instance, metric, parameters)
    return _find_value(study, treatment, instance, metric)


def _find_value(
    study: Mapping[str, Any],
    treatment: TreatmentAnalysis,
    instance: InstanceAnalysis,
    metric: Metric,
) -> _Found | None:
    """A study of values by server and configuration."""
    for factor, level in study["only"].items():
        if treatment.resolved.get(factor, level) != level:
            return None
    configuration = str(treatment.resolved.get("configuration", "default"))
    for published in study["servers"]:
        if _is_of_series(published, instance.server):
            for key in (configuration, "any"):
                figures = published.get(key, {})
                if metric.name in figures:
                    value = float(figures[metric.name])
                    return _Found(published["name"], value, note=figures.get("note"))
    return None


def _find_cell(
    study: Mapping[str, Any],
    treatment: TreatmentAnalysis,
    instance: InstanceAnalysis,
    metric: Metric,
    parameters: Mapping[str, Any],
) -> _Found | None:
    """A study of comparisons: the first cell whose every condition holds."""
    if metric.name != study["metric"]:
        return None
    known = {**parameters, **treatment.resolved}
    for cell in study["cells"]:
        if (
            _is_of_series(cell["server"], instance.server)
            and _hold(cell["where"], known)
            and _hold(cell.get("variables", {}), instance.effective)
        ):
            name = cell["server"]["name"]
            return _Found(name, None, _ratios(cell), cell["relative_to"], note=cell.get("note"))
    return None


def _hold(conditions: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether each condition names what is known, or lists it; case does not matter."""
    return all(
        str(known.get(name)).casefold()
        in {str(one).casefold() for one in (wanted if isinstance(wanted, list) else [wanted])}
        for name, wanted in conditions.items()
    )


def _ratios(cell: Mapping[str, Any]) -> tuple[float, float] | None:
    """The relative throughput, lowest and highest: as published, or the inverse of a time's."""
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


def _is_of_series(published: Mapping[str, str], server: ServerRecord) -> bool:
    is_family = published["family"] == server.family
    return is_family and published["series"] == _series(server.version)


def _series(version: str) -> str:
    """``5.6`` of ``5.6.24``, ``10.2`` of ``10.2.11-MariaDB``."""
    return ".".join(version.split(".")[:2])
