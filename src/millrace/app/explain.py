"""Explain the difference between two treatments of a run, and measure the cost of settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from millrace.analysis.explain.explanation import explain, with_ablations
from millrace.analysis.explain.model import Explanation, is_observed
from millrace.errors import UserError, nearest
from millrace.levels import Level, level_named, level_value, levels_text
from millrace.report.explanation.sentences import title
from millrace.store.records import RunRecord, StoredRun
from millrace.store.store import Store

_SHOWN = 8


@dataclass(frozen=True)
class Selection:
    """The treatments to explain, by levels as a user writes them.

    ``base`` is A, ``candidates`` are B, ``factor`` is the factor of both; without them, they are
    the experiment's base and all its other levels. ``test`` and ``where`` (FACTOR=LEVEL) fix other
    factors at some levels.
    """

    base: str | None = None
    candidates: tuple[str, ...] = ()
    factor: str | None = None
    test: str | None = None
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExplainedRun:
    """A run, loaded with its observations, its selected comparisons, and its ablations."""

    stored: StoredRun
    compared: tuple[Explanation, ...]
    ablations: tuple[StoredRun, ...] = ()

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """The comparisons, with the results of ablations."""
        return tuple(with_ablations(each, self.ablations) for each in self.compared)


def explain_run(path: Path, run: str, selection: Selection) -> ExplainedRun:
    """Explain a run of the store at ``path``, with the results of its ablations.

    ``run`` is an id, its beginning, or ``latest``; an ablation stands for the run that it tested.
    Nothing is measured. Raise UserError for levels that do not exist, or without observations.
    """
    with Store.open(path, read_only=True) as store:
        stored = store.load_run(_run_to_explain(store, run).id, observations_too=True)
        ablations = ablations_of(store, stored.run.id)
    held = held_levels(stored, selection.test, selection.where)
    found = explain_levels(stored, selection.base, selection.candidates, selection.factor, held)
    if not any(map(is_observed, found)):
        raise UserError(
            f"run {stored.run.id} holds no observations: only its speed was measured",
            hint="measure it again with collectors, and a few blocks with the profiler: "
            "`millrace run FILE --new --collectors all --profile-blocks 3`",
        )
    return ExplainedRun(stored, found, ablations)


def explanations_of_report(
    stored: StoredRun, base: Level, ablations: Sequence[StoredRun]
) -> tuple[Explanation, ...]:
    """Return the explanations of a run's report; none for a run without observations.

    They compare each level of the compared factor with ``base``, with the results of ablations.
    """
    factor = stored.run.spec.compare.factor
    has_observations = not all(attempt.observations.is_empty for attempt in stored.attempts)
    if not has_observations or len(stored.run.spec.levels[factor]) < 2:
        return ()
    found = explain_levels(stored, str(base), (), factor, {})
    return tuple(with_ablations(each, ablations) for each in found if is_observed(each))


def _run_to_explain(store: Store, wanted: str) -> RunRecord:
    """Return the run of that name; for an ablation, the run that it tested."""
    found = store.find_run(wanted)
    ablates = found.spec.tested
    if ablates is None:
        return found
    try:
        return store.find_run(ablates.run)
    except UserError:
        raise UserError(
            f"run {found.id} is an ablation of run {ablates.run}, which is no longer in the store",
            hint="name a run with observations; `millrace results list` has all",
        ) from None


def ablations_of(store: Store, run_id: str) -> tuple[StoredRun, ...]:
    """Return the runs that tested likely causes of a run, the newest first."""
    return tuple(store.load_run(run.id) for run in store.ablations_of(run_id))


def explain_levels(
    stored: StoredRun,
    base: str | None,
    candidates: Sequence[str],
    factor: str | None,
    held: Mapping[str, Sequence[Level]],
) -> tuple[Explanation, ...]:
    """Explain each candidate against the base, in each group with the ``held`` levels.

    ``held`` has the permitted levels of each fixed factor. Raise UserError for levels that do not
    exist.
    """
    name, against, others = _compared(stored, base, candidates, factor)
    if name in held:
        raise UserError(
            f"{name} is what is compared here",
            hint=f"leave {_option(name)} out; --base and --candidate name levels of {name}",
        )
    return tuple(
        explanation
        for candidate in others
        for levels in product(*held.values())
        for explanation in explain(
            stored,
            factor=name,
            base=against,
            candidate=candidate,
            fixed_factors=dict(zip(held, levels, strict=True)),
        )
    )


def _option(factor: str) -> str:
    return "--test (or --where)" if factor == "test" else "--where"


def _compared(
    stored: StoredRun, base: str | None, candidates: Sequence[str], factor: str | None
) -> tuple[str, Level, Sequence[Level]]:
    """Return the factor, its level A and its levels B."""
    levels = stored.run.spec.levels
    compare = stored.run.spec.compare
    if factor is not None and factor not in levels:
        raise _unknown(factor, levels, f"run {stored.run.id} has no factor")
    if factor is None:
        asked = [each for each in (base, *candidates) if each is not None]
        factor = _having(levels, compare.factor, asked)
    known = levels[factor]
    if base is not None:
        against = _level(factor, base, known)
    else:
        against = compare.base if factor == compare.factor else known[0]
    named = [_level(factor, each, known) for each in candidates]
    others = list(dict.fromkeys(named)) or [level for level in known if level != against]
    if not others:
        raise UserError(
            f"{level_value(against)} is the only level of {factor}, so there is nothing to compare "
            f"it with",
            hint="measure another level in the same run",
        )
    return factor, against, others


def _having(levels: Mapping[str, Sequence[Level]], compared: str, asked: Sequence[str]) -> str:
    """Return the factor that has all ``asked`` levels: the compared one, or the only other.

    A factor with exactly that spelling of its levels comes first.
    """

    def exactly(text: str, known: Sequence[Level]) -> bool:
        return text in map(str, known)

    def understood(text: str, known: Sequence[Level]) -> bool:
        return level_named(text, known) is not None

    for has in (exactly, understood):
        having = [name for name, known in levels.items() if all(has(t, known) for t in asked)]
        if compared in having:
            return compared
        if len(having) == 1:
            return having[0]
    return compared


def held_levels(
    stored: StoredRun, test: str | None, where: Sequence[str]
) -> dict[str, list[Level]]:
    """Return the fixed factors and their levels.

    A test is a level too, where tests vary.
    """
    levels = stored.run.spec.levels
    asked = [_assignment(text) for text in where]
    if test is not None and "test" in levels:
        asked.append(("test", test))
    elif test is not None and test != stored.run.spec.workload.name:
        raise _unknown(test, [stored.run.spec.workload.name], f"run {stored.run.id} has no test")
    held: dict[str, list[Level]] = {}
    for name, level in asked:
        if name not in levels:
            raise _unknown(name, levels, f"run {stored.run.id} has no factor")
        named = _level(name, level, levels[name])
        if named not in held.setdefault(name, []):
            held[name].append(named)
    return held


def _assignment(text: str) -> tuple[str, str]:
    name, equals, level = text.partition("=")
    if not equals:
        raise UserError(
            f"--where {text}: expected FACTOR=LEVEL", hint="as in --where engine=InnoDB"
        )
    return name.strip(), level.strip()


def _level(factor: str, text: str, known: Sequence[Level]) -> Level:
    """Return the level of the factor with this spelling.

    Raise UserError where it has none.
    """
    named = level_named(text, known)
    if named is None:
        what = f"the factor {factor} has no level"
        raise _unknown(text, list(map(level_value, known)), what, levels_text(known))
    return named


def _unknown(name: str, known: Collection[str], what: str, listed: str = "") -> UserError:
    """Return the error of an unknown name; ``listed`` replaces the list of ``known`` names."""
    likely = nearest(name, known)
    meant = f"did you mean {likely!r}? " if likely else ""
    return UserError(f"{what} {name!r}", hint=f"{meant}there is: {listed or ', '.join(known)}")


def titles(found: Sequence[Explanation]) -> str:
    """Name the first few comparisons, and count the others."""
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(title(each) for each in found[:_SHOWN]) + more
