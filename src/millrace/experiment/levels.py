"""Read the factors of an experiment, and check their names and levels."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.errors import nearest
from millrace.experiment.diagnostics import Diagnostics, Table, is_line, shown
from millrace.experiment.model import Factor
from millrace.experiment.validation_context import ValidationContext
from millrace.levels import Level, split_role
from millrace.model import roles as role_names
from millrace.workloads import FREE_LEVEL, Workload, WorkloadFactor

DEFAULT_ROLE = role_names.SERVER
SERVER, CONFIGURATION, TEST = "server", "configuration", "test"

# A server option can be a factor; its name is this prefix and the option's name.
OPTION = "options."
_OPTIONS = OPTION.removesuffix(".")

MOST_LEVELS = 500

LevelCheck = Callable[[str, object], None]


@dataclass(frozen=True)
class Vocabulary:
    """The names that levels may use: those of the context and the file's own configurations.

    ``workload`` is None if the file names no known workload; then only servers, configurations and
    options can be checked.
    """

    context: ValidationContext
    configurations: Collection[str]
    workload: Workload | None

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.workload.roles) if self.workload else (DEFAULT_ROLE,)

    def of_workload(self) -> Mapping[str, WorkloadFactor]:
        return self.workload.factors if self.workload else {}

    def has_factor(self, name: str) -> bool:
        """Return whether a factor exists; any option is accepted, because only servers know all."""
        role, rest = split_role(name)
        is_option = rest.startswith(OPTION) and (role is None or role in self.prefixes)
        return is_option or name in self.factor_names()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The roles that prefix their factors, as in ``replica.server``: all but the default."""
        return tuple(role for role in self.roles if role != DEFAULT_ROLE)

    def factor_names(self) -> list[str]:
        """Return the names of all factors, except options."""
        of_servers = (SERVER, CONFIGURATION)
        of_roles = [f"{role}.{name}" for role in self.prefixes for name in of_servers]
        return [*of_servers, *of_roles, *self.of_workload()]


def read_factors(
    errors: Diagnostics, where: str, raw: Table, vocabulary: Vocabulary
) -> dict[str, Factor]:
    """Return the valid factors of a table by name; a misspelt one gets its nearest unused name."""
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


def _flattened(
    where: str, raw: Table, vocabulary: Vocabulary, prefix: str = ""
) -> list[tuple[str, str, Any]]:
    """Return (place, factor, value) of each factor of a table and its nested tables.

    TOML parses ``replica.server = []`` as a nested table.
    """
    known = vocabulary.factor_names()
    flat = []
    for key, value in raw.items():
        place, name = f"{where}.{key}", f"{prefix}{key}"
        is_table = isinstance(value, dict) and not {"levels", "aliases"} & set(value)
        if is_table and name not in known and (not prefix or key == _OPTIONS):
            flat += _flattened(place, value, vocabulary, f"{name}.")
        else:
            flat.append((place, name, value))
    return flat


def _exists(errors: Diagnostics, place: str, name: str, vocabulary: Vocabulary) -> bool:
    role, rest = split_role(name)
    if vocabulary.has_factor(name):
        return True
    if vocabulary.workload is None:
        return False
    if role == DEFAULT_ROLE:
        errors.add(place, f"factors of the role {role!r} have no prefix", f"the factor {rest}")
    elif role is not None and role not in vocabulary.roles:
        said = f"the workload {vocabulary.workload.name} has no role {role!r}"
        errors.add(place, said, f"one of its roles: {', '.join(vocabulary.roles)}")
    elif name in vocabulary.workload.parameters:
        errors.add(place, f"{name} is a parameter: write it in [parameters]")
    else:
        errors.unknown(place, "factor", name, vocabulary.factor_names())
    return False


def _factor(
    errors: Diagnostics, place: str, name: str, value: object, vocabulary: Vocabulary
) -> Factor | None:
    levels: object = value
    aliases: object = {}
    place_of_levels = place
    if isinstance(value, dict):
        meant = errors.keys(place, value, ("levels", "aliases"), tables=("aliases",))
        levels, aliases = meant.get("levels", []), meant.get("aliases", {})
        place_of_levels = f"{place}.levels"
    if not isinstance(levels, list) or not levels:
        what = "has no levels" if levels == [] else f"{shown(levels)} is not a list"
        errors.add(place_of_levels, what, 'a list such as ["one", "another"]')
        return None
    if len(levels) > MOST_LEVELS:
        errors.add(place_of_levels, f"has {len(levels):,} levels", f"at most {MOST_LEVELS}")
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
            errors.add(at, said, "each level once; to measure a level twice, use an alias")
        elif not (isinstance(level, str) and level in aliases):
            check(at, level)
    for alias, target in aliases.items():
        _check_alias(errors, f"{place}.aliases.{alias}", alias, levels)
        check(f"{place}.aliases.{alias}", target)
    if not all(isinstance(level, str | int | float) for level in (*levels, *aliases.values())):
        return None
    offered = vocabulary.of_workload().get(name)
    canonical = offered.canonical if offered is not None else lambda level: level
    of_aliases = {alias: canonical(level) for alias, level in aliases.items()}
    return Factor(name, tuple(map(canonical, levels)), of_aliases)


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
        errors.add(place, f"the alias {alias!r} is not used", "the alias in the list of levels")
    elif not alias.strip() or not is_line(alias):
        errors.add(place, f"{shown(alias)} is not a name", "one line of plain text")


def _check_for(errors: Diagnostics, name: str, vocabulary: Vocabulary) -> LevelCheck:
    kind = split_role(name)[1]
    if kind.startswith(OPTION):

        def check_option(at: str, level: object) -> None:
            for diagnostic in vocabulary.context.check_option(at, kind.removeprefix(OPTION), level):
                errors.include(diagnostic)

        return check_option
    if kind not in (SERVER, CONFIGURATION):
        offered = vocabulary.of_workload()[name]
        return lambda at, level: _check_offered(errors, at, level, name, offered)
    servers, suites = vocabulary.context.servers, vocabulary.context.suites
    known = servers if kind == SERVER else vocabulary.configurations

    def check(at: str, level: object) -> None:
        if not isinstance(level, str):
            is_number = isinstance(level, int | float) and not isinstance(level, bool)
            hint = f'; versions need quotes: "{level}"' if is_number else ""
            errors.add(at, f"{shown(level)} is not text", f"the name of a {kind} in quotes{hint}")
        elif kind == SERVER and level in suites:
            expected = f"the exact name that `millrace servers install {level}` prints"
            errors.add(at, f"{level} is a package suite, not a fixed version", expected)
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


def completed(factors: Mapping[str, Factor], roles: Collection[str]) -> tuple[Factor, ...]:
    """Return the factors in the file's order; a role without ``configuration`` gets ``default``."""
    complete = dict(factors)
    if any(f"{role}.{CONFIGURATION}" not in factors for role in roles):
        complete.setdefault(CONFIGURATION, Factor(CONFIGURATION, ("default",)))
    return tuple(complete.values())


def without_effect(factors: Collection[str], roles: Iterable[str]) -> list[str]:
    """Return the shared server factors that each role replaces with its own factor."""
    return [
        name
        for name in factors
        if (name in (SERVER, CONFIGURATION) or name.startswith(OPTION))
        and all(f"{role}.{name}" in factors for role in roles)
    ]


def is_among(level: Level, levels: Sequence[Level]) -> bool:
    """Return whether ``level`` is one of ``levels``; unlike in Python, true is not 1."""
    same_kind = (each for each in levels if isinstance(each, bool) == isinstance(level, bool))
    return level in same_kind


def resolved_level(factor: Factor, level: Level) -> Level:
    """Return the level that an alias stands for; any other level is returned unchanged."""
    return factor.aliases.get(level, level) if isinstance(level, str) else level
