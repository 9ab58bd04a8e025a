"""What is explained: a run, by its name, and its treatments, by levels as they are written on a
command line; with what tests of its suspects showed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product

import click

from millrace.analysis.explain.explanation import explain, with_ablations
from millrace.analysis.explain.model import Explanation, is_observed
from millrace.errors import UserError, nearest
from millrace.levels import Level, level_named, level_value, levels_text
from millrace.store.records import RunRecord, StoredRun
from millrace.store.store import Store


def run_to_explain(store: Store, wanted: str) -> RunRecord:
    """The run of that name; of one that tests suspects, the one whose suspects it tests."""
    found = store.find_run(wanted)
    test = found.spec.tested
    if test is None:
        return found
    try:
        return store.find_run(test.run)
    except UserError:
        raise UserError(
            f"run {found.id} tested suspects of run {test.run}, which is no longer in the store",
            hint="name a run that was observed; `millrace results list` has all",
        ) from None


def tests_of(store: Store, run_id: str) -> tuple[StoredRun, ...]:
    """The runs that tested suspects of a run, the newest first."""
    return tuple(store.load_run(run.id) for run in store.tests_of(run_id))


def explanations_of_report(
    stored: StoredRun, base: Level, tests: Sequence[StoredRun]
) -> tuple[Explanation, ...]:
    """What a report of the run explains: each level of the compared factor against ``base``, with
    what ``tests`` of its suspects showed; nothing where nobody observed anything."""
    factor = stored.run.spec.compare.factor
    seen = any(attempt.observations for attempt in stored.attempts)
    if not seen or len(stored.run.spec.levels[factor]) < 2:
        return ()
    found = explain_levels(stored, str(base), (), factor, {})
    return tuple(with_ablations(each, tests) for each in found if is_observed(each))


def explain_levels(
    stored: StoredRun,
    base: str | None,
    candidates: Sequence[str],
    factor: str | None,
    held: Mapping[str, Sequence[Level]],
) -> tuple[Explanation, ...]:
    """Each candidate against the base, group by group, of those with one of the ``held`` levels of
    each factor; UserError for levels that are not there."""
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
            held=dict(zip(held, levels, strict=True)),
        )
    )


def _option(factor: str) -> str:
    return "--workload (or --where)" if factor == "test" else "--where"


def _compared(
    stored: StoredRun, base: str | None, candidates: Sequence[str], factor: str | None
) -> tuple[str, Level, Sequence[Level]]:
    """The factor, its level A and its levels B."""
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
    """The factor that has all levels that were asked for: the compared one, or the only other; one
    that has them as they are written before one that they are understood for."""

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
    stored: StoredRun, workload: str | None, where: Sequence[str]
) -> dict[str, list[Level]]:
    """The levels of other factors that were asked for, any of them where there are several; a test
    is a level too, where tests vary."""
    levels = stored.run.spec.levels
    asked = [_assignment(text) for text in where]
    if workload is not None and "test" in levels:
        asked.append(("test", workload))
    elif workload is not None and workload != stored.run.spec.workload.name:
        raise _unknown(
            workload, [stored.run.spec.workload.name], f"run {stored.run.id} has no workload"
        )
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
        raise click.BadParameter(f"{text!r} is not of the form FACTOR=LEVEL", param_hint="--where")
    return name.strip(), level.strip()


def _level(factor: str, text: str, known: Sequence[Level]) -> Level:
    """The level of the factor that is written so; UserError where it has none."""
    named = level_named(text, known)
    if named is None:
        what = f"the factor {factor} has no level"
        raise _unknown(text, list(map(level_value, known)), what, levels_text(known))
    return named


def _unknown(name: str, known: Collection[str], what: str, listed: str = "") -> UserError:
    """``listed`` is what there is, in words, where it is not ``known`` itself."""
    likely = nearest(name, known)
    meant = f"did you mean {likely!r}? " if likely else ""
    return UserError(f"{what} {name!r}", hint=f"{meant}there is: {listed or ', '.join(known)}")
