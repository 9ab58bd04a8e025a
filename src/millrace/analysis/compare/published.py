"""Published figures of a study, set beside the user's own where the version series match."""

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Group, RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.levels import Level
from millrace.model.roles import MEASURED
from millrace.studies.lookup import Conditions, Figure, Hours, Study, load_study


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
    """The study an experiment repeats, and its figures that match a treatment of the run.

    ``hours`` is the throughput by the hour of its servers, whether they match or not.
    """

    name: str
    title: str
    host: str
    figures: tuple[PublishedFigure, ...]
    hours: tuple[Hours, ...] = ()


def published_comparison(analysis: RunAnalysis) -> PublishedStudy | None:
    """Return the figures, of the study that the experiment names, that match the run, if any."""
    name = analysis.run.spec.published
    study = load_study(str(name)) if name else None
    if study is None:
        return None
    figures = tuple(
        figure
        for metric in analysis.metrics
        for group in analysis.groups
        for figure in _of_group(study, group, metric, analysis.run.spec.parameters)
    )
    return PublishedStudy(study.name, study.title, study.host, figures, tuple(study.hours))


def _of_group(
    study: Study, group: Group, metric: Metric, parameters: Mapping[str, Level]
) -> list[PublishedFigure]:
    found = {t.id: _find(study, t, metric, parameters) for t in group.treatments}
    base = next((found[t.id] for t in group.treatments if t.is_base), None)
    return [
        _figure(treatment_id, metric, match, base)
        for treatment_id, match in found.items()
        if match is not None
    ]


def _figure(
    treatment_id: str, metric: Metric, match: Figure, base: Figure | None
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
    study: Study, treatment: TreatmentAnalysis, metric: Metric, parameters: Mapping[str, Level]
) -> Figure | None:
    instance = next((i for i in treatment.instances if i.role in MEASURED), None)
    if instance is None:
        return None
    conditions = Conditions(
        family=instance.server.family,
        version=instance.server.version,
        levels=treatment.resolved,
        parameters=parameters,
        variables=instance.effective,
    )
    return study.find(metric.name, conditions)
