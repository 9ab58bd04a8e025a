"""Published figures of a study, set beside the user's own where the version series match."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from millrace.analysis.metrics import Metric
from millrace.analysis.model import Group, RunAnalysis, TreatmentAnalysis


@dataclass(frozen=True)
class PublishedFigure:
    """A published value, for the treatment it stands beside.

    ``version`` is the published server's own name ("MySQL 5.6.34"); ``value`` is in the metric's
    unit; ``ratio`` is to the published figure of the base's series in the same configuration, None
    where that was not published.
    """

    treatment_id: str
    version: str
    metric: Metric
    value: float
    ratio: float | None
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
        for figure in _of_group(study, group, metric)
    )
    return PublishedStudy(study["name"], study["title"], study["host"], figures)


def _load(name: str) -> Mapping[str, Any] | None:
    file = resources.files("millrace.report") / "published" / f"{name.lower()}.toml"
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else None


def _of_group(study: Mapping[str, Any], group: Group, metric: Metric) -> list[PublishedFigure]:
    found = {t.id: _find(study, t, metric) for t in group.treatments}
    bases = [found[t.id] for t in group.treatments if t.is_base]
    base_value = bases[0][1] if bases and bases[0] is not None else None
    return [
        PublishedFigure(
            treatment_id=treatment_id,
            version=match[0],
            metric=metric,
            value=match[1],
            ratio=None if base_value is None else match[1] / base_value,
            note=match[2],
        )
        for treatment_id, match in found.items()
        if match is not None
    ]


def _find(
    study: Mapping[str, Any], treatment: TreatmentAnalysis, metric: Metric
) -> tuple[str, float, str | None] | None:
    """The published (version, value, note) of the treatment's series and configuration."""
    for factor, level in study["only"].items():
        if treatment.resolved.get(factor, level) != level:
            return None
    server = next((i.server for i in treatment.instances if i.role == "server"), None)
    if server is None:
        return None
    configuration = str(treatment.resolved.get("configuration", "default"))
    for published in study["servers"]:
        if published["family"] == server.family and published["series"] == _series(server.version):
            for key in (configuration, "any"):
                figures = published.get(key, {})
                if metric.name in figures:
                    return published["name"], float(figures[metric.name]), figures.get("note")
    return None


def _series(version: str) -> str:
    """``5.6`` of ``5.6.24``, ``10.2`` of ``10.2.11-MariaDB``."""
    return ".".join(version.split(".")[:2])
