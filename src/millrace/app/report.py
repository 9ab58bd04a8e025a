"""Analyze a stored run for its report."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from millrace.analysis.compare.bisection import Bisection, bisection
from millrace.analysis.compare.calibration import applicable_calibration, calibration, preferred
from millrace.analysis.compare.compare_run import base_level, compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.counts.compare_counts import CountedRun, counted_run
from millrace.analysis.explain.explanation import Explanation
from millrace.app.explain import ablations_of, explanations_of_report, first_causes
from millrace.store.records import StoredRun
from millrace.store.store import Store


@dataclass(frozen=True)
class RunReport:
    """A run's analysis, the explanations of its comparisons, and the path of its HTML report."""

    analysis: RunAnalysis
    explanations: tuple[Explanation, ...]
    page: Path


@dataclass(frozen=True)
class BisectionReport:
    """The result of a bisection, and the path of its HTML report."""

    found: Bisection
    page: Path


def report(
    path: Path,
    run: str,
    *,
    margin: float | None = None,
    base: str | None = None,
    gates: bool = False,
) -> RunReport | BisectionReport | CountedRun:
    """Analyze the run named ``run`` (an id, its beginning, or ``latest``) of the store at ``path``.

    ``margin`` is a fraction. None for ``margin`` or ``base`` is the experiment's own. With
    ``gates``, raise UserError for an imported run that is not named by its full id.
    """
    with Store.open(path, read_only=True) as store:
        # Verdicts use the observed execution plans, so every format needs the observations.
        stored = store.load_run(store.find_run(run, trusted=gates).id, observations_too=True)
        if stored.run.spec.bisects is not None:
            return BisectionReport(bisection(stored), store.report_path(stored.run.id))
        if stored.run.spec.counts is not None:
            return counted_run(stored, base_level(stored.run.spec, base))
        return report_of(store, stored, margin=margin, base=base)


def report_of(
    store: Store, stored: StoredRun, *, margin: float | None, base: str | None
) -> RunReport:
    """Return the analysis of a run that was loaded with its observations."""
    analysis = with_calibration(store, compare_run(stored, margin=margin, base=base))
    ablations = ablations_of(store, stored.run.id)
    explanations = explanations_of_report(stored, analysis.base, ablations)
    analysis = replace(
        analysis,
        causes=first_causes(stored, explanations),
        instructions=tuple(
            (each.group, each.instructions)
            for each in explanations
            if each.instructions is not None
        ),
    )
    return RunReport(analysis, explanations, store.report_path(stored.run.id))


def with_calibration(store: Store, analysis: RunAnalysis) -> RunAnalysis:
    """Return the analysis with the applicable results of the host's newest calibration."""
    if analysis.run.spec.calibrates is not None:
        return analysis  # the run is a calibration
    runs = preferred(analysis.run, store.calibrations_of(analysis.run))
    found = None
    # A calibration that was stopped before its first verdict does not hide an older one.
    for each in map(calibration, store.readable_runs(runs)):
        if found is None or each.verdicts:
            found = each
        if each.verdicts:
            break
    if found is None:
        return replace(analysis, calibrations=())
    return replace(
        analysis, calibrations=(applicable_calibration(analysis.run, found, datetime.now(UTC)),)
    )
