"""Measure the cases of ``benchmarks/attribution --cases``, and score what reports name."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.cases import Case, CaseSize
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.app.execution import Caller, execute_run, select_run
from millrace.app.experiments import read_experiment
from millrace.app.report import report_of
from millrace.report.run.sentences import answer
from millrace.store.records import StoredRun
from millrace.store.store import Store

FIRST_WANTED = 10 / 12
"""The share of cases whose first-named cause must be right."""
WRONG_ALLOWED = 1
"""The number of headlines that may name a setting which is not the cause."""


@dataclass(frozen=True)
class CaseResult:
    """The causes that a case's explanation and its report's headline name.

    ``first`` is the first cause of the explanation, ``in_headline`` the one that the report names;
    None where there is none. ``headline`` is the report's answer.
    """

    case: Case
    ratio: float | None
    first: LikelyCause | None
    in_headline: LikelyCause | None
    headline: str
    failed: tuple[str, ...]
    took_s: float

    @property
    def first_is_right(self) -> bool:
        """Return whether the explanation names the right cause first, and the headline no other."""
        named = self.first if self.in_headline is None else self.in_headline
        return not self.failed and self.case.is_right(self.first) and self.case.is_right(named)

    @property
    def names_wrong_setting(self) -> bool:
        """Return whether the headline names a setting or a plan that is not the cause."""
        named = self.in_headline
        return (
            named is not None and named.kind in ("option", "plan") and not self.case.is_right(named)
        )

    def figures(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "case": self.case.name,
            "sides": self.case.sides,
            "expected": sorted(self.case.expected),
            "ratio": self.ratio,
            "first": None if self.first is None else asdict(self.first),
            "in_headline": None if self.in_headline is None else self.in_headline.about,
            "headline": self.headline,
            "first_is_right": self.first_is_right,
            "names_wrong_setting": self.names_wrong_setting,
            "failed": self.failed,
            "took_s": self.took_s,
        }


def measure_case(case: Case, size: CaseSize, directory: Path, store: Store) -> CaseResult:
    """Measure a case as `millrace run` does, and return what its report names."""
    began = time.monotonic()
    place = directory / case.name
    place.mkdir()
    experiment = read_experiment(case.write(place, size))
    caller = Caller(f"benchmarks/attribution --cases --case {case.name}")
    with ExitStack() as opened:
        selection = select_run(store, experiment, caller, fresh=True)
        execute_run(opened, store, selection, caller)
    stored = store.load_run(selection.run.id, observations_too=True)
    return case_result(case, store, stored, time.monotonic() - began)


def case_result(case: Case, store: Store, stored: StoredRun, took_s: float) -> CaseResult:
    """Return what the report of a measured case names."""
    found = report_of(store, stored, margin=None, base=None)
    causes = [each for of in found.explanations for each in of.likely_causes]
    named = next(iter(found.analysis.causes.values()), None)
    estimates = [each.estimate for each in found.analysis.comparisons()]
    failed = tuple(
        f"{attempt.failed_step}: {attempt.reason}"
        for attempt in stored.last_attempts().values()
        if attempt.outcome == "failed"
    )
    headline = answer(found.analysis)
    return CaseResult(
        case=case,
        ratio=next((each.ratio for each in estimates if each is not None), None),
        first=next(iter(causes), None),
        in_headline=_of_headline(causes, named.about)
        if named is not None and f": {named.about}" in headline
        else None,
        headline=headline,
        failed=failed,
        took_s=took_s,
    )


def _of_headline(causes: Sequence[LikelyCause], about: str) -> LikelyCause:
    """Return the cause that a report names; CPU time has words of its own there."""
    return next((each for each in causes if each.about == about), causes[0])


def line(result: CaseResult) -> str:
    """Format a case: its servers, the expected and the first-named cause, and the headline."""
    case = result.case
    a, b = case.sides
    expected = " or ".join(sorted(case.expected)) or "none"
    right = "right" if result.first_is_right else "WRONG"
    wrong = ", WRONG setting in the headline" if result.names_wrong_setting else ""
    lost = f"; {len(result.failed)} trials failed: {result.failed[0]}" if result.failed else ""
    return (
        f"{case.name:20} {a} against {b}\n"
        f"    expected  {expected}\n"
        f"    first     {_named(result.first)}\n"
        f"    headline  {result.headline}\n"
        f"    {right}{wrong}{lost} [{result.took_s:.0f} s]"
    )


def _named(cause: LikelyCause | None) -> str:
    if cause is None:
        return "none"
    settings = f" [{', '.join(cause.settings)}]" if cause.settings else ""
    share = "a fact" if cause.share is None else f"{abs(cause.share) * 100:.0f} %"
    return f"{cause.kind}: {cause.about}{settings} ({share}, {cause.certainty.name.lower()})"


def case_score(results: Sequence[CaseResult]) -> str:
    """Return how many cases are named rightly, next to the goals."""
    right = sum(each.first_is_right for each in results)
    wrong = sum(each.names_wrong_setting for each in results)
    wanted = -int(-len(results) * FIRST_WANTED // 1)
    return (
        f"named first {right} of {len(results)} (wanted: {wanted}); a wrong setting in "
        f"{wrong} headlines (wanted: {WRONG_ALLOWED} at most)"
    )
