"""Explain the difference between two treatments of a run, and measure the cost of settings."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from millrace.analysis.certainty import Certainty
from millrace.analysis.compare.model import FirstCause
from millrace.analysis.explain.causes.evidence import CPU
from millrace.analysis.explain.causes.finders import QUEUE
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.explanation import Explanation, explain, is_observed, with_ablations
from millrace.errors import UserError, nearest
from millrace.levels import Level, level_named, level_value, levels_text
from millrace.report.explanation.sentences import cpu_cause_text, title
from millrace.store.records import RunRecord, StoredRun
from millrace.store.store import Store

_SHOWN = 8
_MOST_OF_IT = 0.5
_LEAST_SHARE = 0.1  # of the difference: smaller causes are not named in a run's summary
_NAMED = frozenset((
    "environment", "plan", "option", "work", "compression", "lock", "storage", "client",
    "instructions", "tables",
))  # fmt: skip


@dataclass(frozen=True)
class Selection:
    """The treatments to explain, as the user wrote their levels.

    ``base``: level of A, None for the experiment's base. ``candidates``: levels of B, empty for all
    others. ``factor``: the factor of these levels, None to infer it. ``test`` and ``where``
    (FACTOR=LEVEL): the permitted levels of other factors.
    """

    base: str | None = None
    candidates: tuple[str, ...] = ()
    factor: str | None = None
    test: str | None = None
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExplainedRun:
    """A run with its observations, its selected comparisons, and its ablations."""

    stored: StoredRun
    compared: tuple[Explanation, ...]
    ablations: tuple[StoredRun, ...] = ()

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """Return the comparisons, with the results of the ablations."""
        return tuple(with_ablations(each, self.ablations) for each in self.compared)


def explain_run(path: Path, run: str, selection: Selection) -> ExplainedRun:
    """Explain a run of the store at ``path``, with the results of its ablations.

    ``run`` is an id, its beginning, or ``latest``; for an ablation, explain the run that it tested.
    Raise UserError for unknown levels, or for a run without observations or finished trials.
    """
    with Store.open(path, read_only=True) as store:
        stored = store.load_run(_run_to_explain(store, run).id, observations_too=True)
        ablations = ablations_of(store, stored.run.id)
    found = explain_levels(stored, selection)
    if not any(attempt.outcome == "finished" for attempt in stored.attempts):
        raise UserError(
            f"no trial of run {stored.run.id} has finished: there is nothing to explain yet",
            hint="finish the run first: the command that began it resumes where it stopped",
        )
    if not any(map(is_observed, found)):
        raise UserError(
            f"run {stored.run.id} has no observations: only speed was measured",
            hint="measure it again with collectors, and a few blocks with the profiler: "
            "`millrace run FILE --new --collectors all --profile-blocks 3`",
        )
    return ExplainedRun(stored, found, ablations)


def explanations_of_report(
    stored: StoredRun, base: Level, ablations: Sequence[StoredRun]
) -> tuple[Explanation, ...]:
    """Return explanations of all levels against ``base``; empty for a run without observations."""
    factor = stored.run.spec.compare.factor
    has_observations = not all(attempt.observations.is_empty for attempt in stored.attempts)
    if not has_observations or len(stored.run.spec.levels[factor]) < 2:
        return ()
    found = explain_levels(stored, Selection(base=str(base), factor=factor))
    return tuple(with_ablations(each, ablations) for each in found if is_observed(each))


def first_causes(
    stored: StoredRun, explanations: Sequence[Explanation]
) -> Mapping[tuple[str, str], FirstCause]:
    """Return the first cause of each explained comparison, by the ids of base and candidate.

    If CPU time ranks first and no cause was shown by measurement, it is the first cause. Otherwise,
    it is the highest-ranked cause of a kind in ``_NAMED`` that can be most of the difference, is at
    least ``_LEAST_SHARE`` of it, and does not slow down the faster side. A cause that is only
    possible counts if it ranks first and is not one of several possible settings.
    """
    ids = {frozenset(each.levels.items()): each.id for each in stored.treatments}
    found = {}
    for explanation in explanations:
        causes = explanation.likely_causes
        named = (
            each
            for each in causes
            if each.kind in _NAMED and each.certainty != Certainty.FACT_AGAINST
            if each.may_be_most
            if each.certainty != Certainty.POSSIBLE
            or (each is causes[0] and not _is_doubtful(causes))
            if each.share is None or abs(each.share) >= _LEAST_SHARE
        )
        is_shown = any(each.certainty == Certainty.SHOWN for each in causes)
        is_cpu = bool(causes) and causes[0].kind == "cpu" and not causes[0].certainty.is_fact
        is_cpu = is_cpu and not is_shown
        first = causes[0] if is_cpu else next(named, None)
        if first is not None:
            sides = (explanation.a.levels, explanation.b.levels)
            a, b = (ids[frozenset(levels.items())] for levels in sides)
            found[a, b] = FirstCause(
                cpu_cause_text(explanation) if is_cpu and first.about != QUEUE else first.about,
                first.settings,
                first.certainty,
                names=first.names,
                share=first.share if first.certainty == Certainty.SHOWN else None,
                functions=_leading_functions(explanation),
            )
    return found


def _is_doubtful(causes: Sequence[LikelyCause]) -> bool:
    """Return whether the first two causes are both settings that are only possible."""
    possible = [
        each.kind == "option" and each.certainty == Certainty.POSSIBLE for each in causes[:2]
    ]
    return len(possible) > 1 and all(possible)


def _leading_functions(explanation: Explanation) -> Mapping[str, tuple[float, float]]:
    """Return the functions with most of the time difference, each with µs and share.

    Return an empty mapping if less than half of the difference is CPU time.
    """
    profile, found = explanation.profile, explanation.differences
    if profile is None or found is None or not found.latency.mean:
        return {}
    on_cpu = [line.difference.mean for line in found.lines if line.key in CPU]
    if math.fsum(on_cpu) / found.latency.mean < _MOST_OF_IT:
        return {}
    return {
        f"{each.name} and what it calls" if each.with_callees else each.name: (each.us, each.share)
        for each in profile.leading
    }


def _run_to_explain(store: Store, wanted: str) -> RunRecord:
    """Return the run named ``wanted``; for an ablation, the run that it tested."""
    found = store.find_run(wanted)
    ablates = found.spec.tested
    if ablates is None:
        return found
    tested = store.tested_run(found)
    if tested is None:
        raise UserError(
            f"run {found.id} is an ablation of run {ablates.run}, which is no longer in the store",
            hint="name a run with observations; `millrace results list` lists all runs",
        )
    return tested


def ablations_of(store: Store, run_id: str) -> tuple[StoredRun, ...]:
    """Return the runs that tested likely causes of a run, the newest first."""
    return tuple(store.load_run(run.id) for run in store.ablations_of(run_id))


def explain_levels(stored: StoredRun, selection: Selection) -> tuple[Explanation, ...]:
    """Explain the candidates in each selected group; raise UserError for unknown levels."""
    resolved = _resolved(stored, selection)
    return tuple(
        explanation
        for candidate in resolved.candidates
        for levels in product(*resolved.fixed.values())
        for explanation in explain(
            stored,
            factor=resolved.factor,
            base=resolved.base,
            candidate=candidate,
            fixed_factors=dict(zip(resolved.fixed, levels, strict=True)),
        )
    )


@dataclass(frozen=True)
class _Resolved:
    """The levels of a selection; ``fixed`` has the permitted levels of other factors."""

    factor: str
    base: Level
    candidates: Sequence[Level]
    fixed: Mapping[str, Sequence[Level]]


def _resolved(stored: StoredRun, selection: Selection) -> _Resolved:
    levels, compare = stored.run.spec.levels, stored.run.spec.compare
    fixed = _fixed_factors(stored, selection)
    factor = selection.factor
    if factor is None:
        asked = [each for each in (selection.base, *selection.candidates) if each is not None]
        factor = _factor_with_levels(asked, levels, compare.factor)
    if factor not in levels:
        raise _unknown(factor, levels, f"run {stored.run.id} has no factor")
    known = levels[factor]
    if selection.base is not None:
        base = _level(factor, selection.base, known)
    else:
        base = compare.base if factor == compare.factor else known[0]
    named = dict.fromkeys(_level(factor, each, known) for each in selection.candidates)
    candidates = list(named) or [level for level in known if level != base]
    if not candidates:
        raise UserError(
            f"{level_value(base)} is the only level of {factor}: there is nothing to compare",
            hint="measure another level in the same run",
        )
    if factor in fixed:
        option = "--test (or --where)" if factor == "test" else "--where"
        raise UserError(
            f"{factor} is the compared factor, so {option} cannot fix its level",
            hint=f"leave out {option}; --base and --candidate select levels of {factor}",
        )
    return _Resolved(factor, base, candidates, fixed)


def _factor_with_levels(
    asked: Sequence[str], levels: Mapping[str, Sequence[Level]], compared: str
) -> str:
    """Return the factor with all ``asked`` levels: the compared factor, or the only other one.

    Prefer a factor whose levels have exactly this spelling. Return ``compared`` if no single other
    factor has the levels.
    """
    exactly = {name for name, known in levels.items() if {*asked} <= {*map(str, known)}}
    anyhow = {
        name
        for name, known in levels.items()
        if all(level_named(text, known) is not None for text in asked)
    }
    for having in (exactly, anyhow):
        if compared in having:
            return compared
        if len(having) == 1:
            return having.pop()
    return compared


def _fixed_factors(stored: StoredRun, selection: Selection) -> dict[str, list[Level]]:
    """Return the permitted levels by factor; ``test`` is one of these factors if it varies."""
    levels, test = stored.run.spec.levels, selection.test
    asked = [_assignment(text) for text in selection.where]
    if test is not None and "test" in levels:
        asked.append(("test", test))
    elif test is not None and test != stored.run.spec.workload.name:
        raise _unknown(test, [stored.run.spec.workload.name], f"run {stored.run.id} has no test")
    fixed: dict[str, list[Level]] = {}
    for name, level in asked:
        if name not in levels:
            raise _unknown(name, levels, f"run {stored.run.id} has no factor")
        named = _level(name, level, levels[name])
        if named not in fixed.setdefault(name, []):
            fixed[name].append(named)
    return fixed


def _assignment(text: str) -> tuple[str, str]:
    name, equals, level = text.partition("=")
    if not equals:
        raise UserError(
            f"--where {text}: expected FACTOR=LEVEL", hint="for example --where engine=InnoDB"
        )
    return name.strip(), level.strip()


def _level(factor: str, text: str, known: Sequence[Level]) -> Level:
    """Return the level of the factor that ``text`` spells; raise UserError if there is none."""
    named = level_named(text, known)
    if named is None:
        what = f"the factor {factor} has no level"
        raise _unknown(text, list(map(level_value, known)), what, levels_text(known))
    return named


def _unknown(name: str, known: Collection[str], what: str, listed: str = "") -> UserError:
    """Return the error for an unknown name; ``listed`` replaces the list of known names."""
    likely = nearest(name, known)
    meant = f"did you mean {likely!r}? " if likely else ""
    return UserError(f"{what} {name!r}", hint=f"{meant}there is: {listed or ', '.join(known)}")


def titles(found: Sequence[Explanation]) -> str:
    """Return the titles of the first comparisons, and the number of others."""
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(title(each) for each in found[:_SHOWN]) + more
