"""Find how noisy the groups of a run were, for later runs of the same experiment."""

import math
from collections.abc import Iterator

from millrace.analysis.compare.estimates import group_of
from millrace.analysis.compare.model import Group, RunAnalysis
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.model.run_spec import LEAST_LOG_SD, MOST_LOG_SD, EarlierNoise

_LEAST_FREEDOM = 2.0  # three blocks of two treatments


def noise_of_groups(analysis: RunAnalysis) -> Iterator[EarlierNoise]:
    """Yield the noise of each group in each metric, where there are blocks enough.

    Comparisons of unequal work or unsteady trials are left out, as where comparisons share their
    noise; so are attached servers, whose noise is that of another host or of the way there.
    """
    for group in analysis.groups:
        for base in (treatment for treatment in group.treatments if treatment.is_base):
            candidates = [] if _is_attached(base) else _fair_candidates(group, base)
            for metric in analysis.metrics if candidates else ():
                found = group_of(base, candidates, metric).variance
                if found is not None and round(found.freedom) >= _LEAST_FREEDOM:
                    yield EarlierNoise(
                        run=analysis.run.id,
                        metric=metric.name,
                        fixed_factors=group.fixed_factors,
                        in_slices=base.in_slices,
                        log_sd=min(max(math.sqrt(found.value), LEAST_LOG_SD), MOST_LOG_SD),
                        degrees_of_freedom=found.freedom,
                    )


def _fair_candidates(group: Group, base: TreatmentAnalysis) -> list[TreatmentAnalysis]:
    """Return the candidates of a base against whose comparison nothing speaks, in any metric."""
    unfair = {
        each.candidate_id
        for each in group.comparisons
        if each.base_id == base.id and (each.unequal or each.unsteady or each.verdict == "failed")
    }
    return [
        treatment
        for treatment in group.treatments
        if not (treatment.is_base or treatment.id in unfair or _is_attached(treatment))
    ]


def _is_attached(treatment: TreatmentAnalysis) -> bool:
    return any(instance.server.build.attached for instance in treatment.instances)
