"""Read the factors of an experiment, and check that each factor and level exists."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millrace.errors import Diagnostic, nearest
from millrace.experiment.diagnostics import Diagnostics, Table, is_line, shown
from millrace.experiment.model import Factor
from millrace.levels import Level
from millrace.workloads import FREE_LEVEL, Workload, WorkloadFactor

DEFAULT_ROLE = "server"
SERVER, CONFIGURATION = "server", "configuration"

# Server options are factors too: their names are the options' names behind this prefix.
OPTION = "options."

LevelCheck = Callable[[str, object], None]
OptionCheck = Callable[[str, str, object], Iterable[Diagnostic]]


@dataclass(frozen=True)
class Vocabulary:
    """The names that levels may use; ``suites`` are names that stand for no exact server.

    ``workload`` is None where the file names no known one; then only servers, configurations and
    options can be checked (``check_option``: place, name, value).
    """

    servers: Collection[str]
    configurations: Collection[str]
    check_option: OptionCheck
    workload: Workload | None
    suites: Collection[str] = ()
    roles: tuple[str, ...] = field(default=(DEFAULT_ROLE,))

    def of_workload(self) -> Mapping[str, WorkloadFactor]:
        return self.workload.factors if self.workload else {}

    def has_factor(self, name: str) -> bool:
        """Return whether a factor can be varied; only a server knows which options exist."""
        return name.startswith(OPTION) or name in self.factor_names()

    def factor_names(self) -> list[str]:
        """Return every factor name that could be varied, with its role's prefix, except options."""
        every_role = [
            name if role == DEFAULT_ROLE else f"{role}.{name}"
            for role in self.roles
            for name in (SERVER, CONFIGURATION)
        ]
        return [*every_role, *self.of_workload()]


def read_factors(
    errors: Diagnostics, where: str, raw: Table, vocabulary: Vocabulary
) -> dict[str, Factor]:
    """Return the valid factors of a table by name, misspelt ones under the nearest missing name."""
    factors = {}
    flat = _flattened(where, raw, vocabulary)
    there = {name for _, name, _ in flat}
    for place, written, value in flat:
        name = written
        if not _exists(errors, place, written, vocabulary):
            near = nearest(written, vocabulary.factor_names())
            if vocabulary.workload is None or near is None or near in there:
                continue
            there.add(name := near)
            errors.alias_place(place, f"{where}.{name}")
        factor = _factor(errors, place, name, value, vocabulary)
        if factor is not None:
            factors[name] = factor
    return factors


def _flattened(where: str, raw: Table, vocabulary: Vocabulary) -> list[tuple[str, str, Any]]:
    """Return (place, factor, value) of each factor; ``replica.server = []`` is a nested table."""
    known = {*vocabulary.factor_names(), SERVER, CONFIGURATION}
    flat = []
    for key, value in raw.items():
        place = f"{where}.{key}"
        if isinstance(value, dict) and key not in known and not {"levels", "aliases"} & set(value):
            flat += [(f"{place}.{sub}", f"{key}.{sub}", nested) for sub, nested in value.items()]
        else:
            flat.append((place, key, value))
    return flat


def _exists(errors: Diagnostics, place: str, name: str, vocabulary: Vocabulary) -> bool:
    role, dot, rest = name.rpartition(".")
    if not dot and name in (SERVER, CONFIGURATION):
        return True
    if vocabulary.has_factor(name):
        return True
    if vocabulary.workload is None:
        return False
    if dot and role == DEFAULT_ROLE:
        errors.add(place, f"the role {role!r} needs no prefix", f"the factor {rest}")
    elif dot and role not in vocabulary.roles:
        errors.add(
            place,
            f"the workload {vocabulary.workload.name} has no role {role!r}",
            f"one of its roles: {', '.join(vocabulary.roles)}",
        )
    else:
        errors.unknown(place, "factor", name, vocabulary.factor_names())
    return False


def _factor(
    errors: Diagnostics, place: str, name: str, value: object, vocabulary: Vocabulary
) -> Factor | None:
    levels: object = value
    aliases: object = {}
    if isinstance(value, dict):
        meant = errors.keys(place, value, ("levels", "aliases"), tables=("aliases",))
        levels, aliases = meant.get("levels", []), meant.get("aliases", {})
        place_of_levels = f"{place}.levels"
    else:
        place_of_levels = place
    if not isinstance(levels, list) or not levels:
        what = "has no levels" if levels == [] else f"{shown(levels)} is not a list"
        errors.add(place_of_levels, what, 'a list such as ["one", "another"]')
        return None
    if not isinstance(aliases, dict):
        errors.add(f"{place}.aliases", "is not a table", '{ again = "a level" }')
        return None
    check = _check_for(errors, name, vocabulary)
    same = _sameness(name, vocabulary)
    for index, level in enumerate(levels):
        at = f"{place_of_levels}[{index}]"
        twin = next((earlier for earlier in levels[:index] if same(level, earlier)), None)
        if twin is not None:
            spelled = "" if twin == level else f", first as {shown(twin)}"
            said = f"{shown(level)} is listed twice{spelled}"
            errors.add(at, said, "each level once; give an alias")
        elif not (isinstance(level, str) and level in aliases):
            check(at, level)
    for alias, target in aliases.items():
        _check_alias(errors, f"{place}.aliases.{alias}", alias, levels)
        check(f"{place}.aliases.{alias}", target)
    if not all(isinstance(level, str | int | float) for level in (*levels, *aliases.values())):
        return None
    offered = vocabulary.of_workload().get(name)
    canonical = offered.canonical if offered is not None else lambda level: level
    return Factor(
        name,
        tuple(canonical(level) for level in levels),
        {alias: canonical(level) for alias, level in aliases.items()},
    )


def _sameness(name: str, vocabulary: Vocabulary) -> Callable[[object, object], bool]:
    offered = vocabulary.of_workload().get(name)
    caseless = offered is not None and offered.caseless
    numbers = offered is not None and offered.kind_of_level == "number"

    def same(one: object, other: object) -> bool:
        if caseless and isinstance(one, str) and isinstance(other, str):
            return one.casefold() == other.casefold()
        if numbers:
            return one == other
        return type(one) is type(other) and one == other

    return same


def _check_alias(errors: Diagnostics, place: str, alias: str, levels: list[object]) -> None:
    if alias not in levels:
        errors.add(place, f"the alias {alias!r} is not used", "its name among the levels")
    elif not alias.strip() or not is_line(alias):
        errors.add(place, f"{shown(alias)} is not a name", "one line of plain text")


def _check_for(errors: Diagnostics, name: str, vocabulary: Vocabulary) -> LevelCheck:
    if name.startswith(OPTION):

        def check_option(at: str, level: object) -> None:
            for diagnostic in vocabulary.check_option(at, name.removeprefix(OPTION), level):
                errors.include(diagnostic)

        return check_option
    kind = name.rpartition(".")[2]
    if kind not in (SERVER, CONFIGURATION):
        offered = vocabulary.of_workload()[name]
        return lambda at, level: _check_offered(errors, at, level, name, offered)
    known = vocabulary.servers if kind == SERVER else vocabulary.configurations

    def check(at: str, level: object) -> None:
        if not isinstance(level, str):
            is_number = isinstance(level, int | float) and not isinstance(level, bool)
            hint = f'; versions need quotes: "{level}"' if is_number else ""
            errors.add(at, f"{shown(level)} is not text", f"the name of a {kind} in quotes{hint}")
        elif kind == SERVER and level in vocabulary.suites:
            expected = f"the exact name that `millrace servers install {level}` says"
            errors.add(at, f"what {level} means changes with its suite", expected)
        elif level not in known:
            errors.unlisted(at, kind, level, known)

    return check


def _check_offered(
    errors: Diagnostics, at: str, level: object, name: str, offered: WorkloadFactor
) -> None:
    wanted = offered.diagnose(level)
    if wanted is None:
        return
    if offered.choices and offered.kind_of_level == "text" and isinstance(level, str):
        errors.unknown(at, name, level, [str(choice) for choice in offered.choices])
    elif offered.free and isinstance(level, str) and wanted == FREE_LEVEL:
        errors.add(at, f"{shown(level)} is not a name", wanted)
    else:
        errors.wrong_value(at, level, wanted)


def completed(factors: Mapping[str, Factor], roles: tuple[str, ...]) -> tuple[Factor, ...]:
    """Return the factors in the file's order; a role without ``configuration`` gets ``default``."""
    complete = dict(factors)
    for role in roles:
        name = CONFIGURATION if role == DEFAULT_ROLE else f"{role}.{CONFIGURATION}"
        complete.setdefault(name, Factor(name, ("default",)))
    return tuple(complete.values())


def is_among(level: Level, levels: Sequence[Level]) -> bool:
    """Return whether ``level`` is one of ``levels``: true is not 1, unlike in Python."""
    return any(
        level == each and isinstance(level, bool) == isinstance(each, bool) for each in levels
    )


def resolved_level(factor: Factor, level: Level) -> Level:
    """Return a level, with an alias replaced by the level it names."""
    return factor.aliases.get(level, level) if isinstance(level, str) else level
