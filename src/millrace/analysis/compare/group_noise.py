"""Find what a run tells about the noise of its groups, for later runs of the same experiment."""

import math
from collections.abc import Iterator

from millrace.analysis.compare.estimates import group_of
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Comparison, Group, RunAnalysis
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.model.run_spec import LEAST_LOG_SD, MOST_LOG_SD, EarlierNoise


def noise_of_groups(analysis: RunAnalysis) -> Iterator[EarlierNoise]:
    """Yield the noise of each group in each metric, where its blocks tell it.

    A treatment whose comparison something speaks against, such as unequal work, tells nothing.
    """
    for group in analysis.groups:
        for base in (treatment for treatment in group.treatments if treatment.is_base):
            for metric in analysis.metrics:
                candidates = _fair(group, base, metric)
                found = group_of(base, candidates, metric).variance if candidates else None
                if found is not None:
                    yield EarlierNoise(
                        run=analysis.run.id,
                        metric=metric.name,
                        fixed_factors=group.fixed_factors,
                        in_slices=base.in_slices,
                        log_sd=min(max(math.sqrt(found.value), LEAST_LOG_SD), MOST_LOG_SD),
                        freedom=found.freedom,
                    )


def _fair(group: Group, base: TreatmentAnalysis, metric: Metric) -> list[TreatmentAnalysis]:
    """Return the candidates that were compared fairly with the base in a metric."""
    fair = {
        each.candidate_id
        for each in group.comparisons
        if each.base_id == base.id and each.metric == metric and _is_fair(each)
    }
    return [treatment for treatment in group.treatments if treatment.id in fair]


def _is_fair(comparison: Comparison) -> bool:
    refused = comparison.unequal or comparison.unsteady
    return comparison.estimate is not None and comparison.verdict != "failed" and not refused
