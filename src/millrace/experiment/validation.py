"""Check everything that an experiment file must satisfy before it is expanded to a plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from millrace import durations, workloads
from millrace.errors import Diagnostic, nearest
from millrace.experiment import diagnostics as door
from millrace.experiment.diagnostics import Diagnostics
from millrace.experiment.levels import (
    DEFAULT_ROLE,
    OPTION,
    SERVER,
    OptionCheck,
    Vocabulary,
    completed,
    is_among,
    read_factors,
)
from millrace.experiment.model import MAX_NAME_LENGTH, Factor
from millrace.experiment.tls_table import read_tls
from millrace.levels import Level
from millrace.tls import Tls
from millrace.workloads import Workload

MAX_BLOCKS = 1000
MAX_SEED = 2**63 - 1
DEFAULT_BLOCKS = 10
DEFAULT_MARGIN_PERCENT = 2.0
MAX_MARGIN_PERCENT = 50.0

_TOP_KEYS = (
    "name", "title", "workload", "published", "seed", "blocks", "max_time", "profile_blocks",
    "margin_percent", "collectors", "concurrent", "default_scale", "factors", "compare",
    "parameters", "configurations", "scales", "tls",
)  # fmt: skip
_TABLES = ("factors", "compare", "parameters", "configurations", "scales", "tls")
_SCALE_KEYS = ("blocks", "max_time", "profile_blocks", "margin_percent", "base", "factors")

# Run ids and file names start with it.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME_IN_WORDS = "A-Z a-z 0-9 . _ - in quotes, the first a letter or digit"
_NEWEST_RUN = "latest"  # the words that commands accept as a run's id

Definitions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Surroundings:
    """The names that an experiment may refer to outside its file.

    The names of servers, the shipped configurations, the check of configurations defined in the
    file (definitions, known ones), the check of a varied option (place, name, level), the published
    studies, the collectors that a trial may have, names that stand for the newest server of a
    suite, and the attached servers.
    """

    servers: Collection[str]
    configurations: Definitions
    check_configurations: Callable[[Definitions, Definitions], list[Diagnostic]]
    check_option: OptionCheck
    studies: Collection[str] = ()
    collectors: Collection[str] = ()
    suites: Collection[str] = ()
    attached: Collection[str] = ()


@dataclass(frozen=True)
class Settings:
    """The settings that a scale may override; None where unset.

    The file itself is the first scale.
    """

    where: str = ""
    blocks: int | None = None
    max_time_s: float | None = None
    profile_blocks: int | None = None
    margin_percent: float | None = None
    base: Level | None = None
    factors: Mapping[str, Factor] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def under(self, scale: Settings) -> Settings:
        """Return these settings with those of ``scale`` overriding them."""
        return Settings(
            where=scale.where,
            blocks=self.blocks if scale.blocks is None else scale.blocks,
            max_time_s=self.max_time_s if scale.max_time_s is None else scale.max_time_s,
            profile_blocks=(
                self.profile_blocks if scale.profile_blocks is None else scale.profile_blocks
            ),
            margin_percent=(
                self.margin_percent if scale.margin_percent is None else scale.margin_percent
            ),
            base=self.base if scale.base is None else scale.base,
            factors={**self.factors, **scale.factors},
            parameters={**self.parameters, **scale.parameters},
        )


@dataclass(frozen=True)
class Checked:
    """The content of a file after the checks; usable only where ``diagnostics`` found nothing."""

    name: str
    title: str
    published: str | None
    collectors: tuple[str, ...]
    concurrent: bool
    seed: int | None
    default_scale: str | None
    workload: Mapping[str, Any]
    definitions: Definitions
    compared: str
    root: Settings
    scales: Mapping[str, Settings]
    roles: tuple[str, ...]
    tls: Mapping[str, Tls]

    def at(self, scale: str | None) -> Settings:
        """Return the settings at a scale, with defaults filled in."""
        settings = self.root if scale is None else self.root.under(self.scales[scale])
        factors = completed(settings.factors, self.roles)
        return replace(
            settings,
            blocks=settings.blocks or DEFAULT_BLOCKS,
            profile_blocks=settings.profile_blocks or 0,
            margin_percent=settings.margin_percent or DEFAULT_MARGIN_PERCENT,
            factors={factor.name: factor for factor in factors},
        )


def check(document: Mapping[str, Any], surroundings: Surroundings) -> tuple[Checked, Diagnostics]:
    """Check a parsed file at all its scales, not only at the requested one."""
    found = Diagnostics()
    document = found.keys("", document, _TOP_KEYS, tables=_TABLES)
    workload, definition = _workload(found, document)
    own = _own_configurations(found, document, surroundings)
    vocabulary = Vocabulary(
        servers=surroundings.servers,
        configurations={*surroundings.configurations, *own},
        check_option=surroundings.check_option,
        workload=workload,
        suites=surroundings.suites,
        roles=tuple(workload.roles) if workload else (DEFAULT_ROLE,),
    )
    compared, base = _compare(found, document, vocabulary)
    root = replace(
        _settings(
            found, "", document, vocabulary, parameters=_parameters_table(found, document, workload)
        ),
        base=base,
    )
    scales = {
        name: _scale(found, f"scales.{name}", raw, vocabulary)
        for name, raw in door.table(found, "scales", document.get("scales", {})).items()
    }
    scales_are_unread = not scales and found.about("scales")
    for scale in () if scales_are_unread else scales.values() or (Settings(),):
        _completeness(found, root.under(scale), vocabulary)
        _base(found, root, scale, compared, vocabulary)
    checked = Checked(
        name=_name(found, document),
        title=_optional_text(found, document, "title") or str(document.get("name", "")),
        published=_published(found, document, surroundings.studies),
        collectors=_collectors(found, document, surroundings.collectors),
        concurrent=_concurrent(found, document),
        seed=_seed(found, document),
        default_scale=_default_scale(found, document, scales),
        workload=definition,
        definitions={**surroundings.configurations, **own},
        compared=compared,
        root=_with_defaults(root, workload),
        scales=scales,
        roles=vocabulary.roles,
        tls=read_tls(found, document, surroundings.attached),
    )
    return checked, found


def _name(found: Diagnostics, document: Mapping[str, Any]) -> str:
    name = document.get("name")
    if name is None:
        found.add("name", "is missing", _NAME_IN_WORDS)
    elif not isinstance(name, str) or _NAME.fullmatch(name) is None:
        found.add("name", f"{door.shown(name)} is not a name", _NAME_IN_WORDS)
    elif len(name) > MAX_NAME_LENGTH:
        said = f"{door.shown(name)} has {len(name)} characters"
        found.add("name", said, f"at most {MAX_NAME_LENGTH}")
    elif name == _NEWEST_RUN:
        found.add("name", f"{door.shown(name)} stands for the newest run", "another name")
    else:
        return name
    return ""


def _optional_text(found: Diagnostics, document: Mapping[str, Any], key: str) -> str | None:
    return door.text(found, key, document[key]) if key in document else None


def _published(
    found: Diagnostics, document: Mapping[str, Any], studies: Collection[str]
) -> str | None:
    name = _optional_text(found, document, "published")
    if name is not None and name not in studies:
        found.unknown("published", "published study", name, studies)
    return name


def _collectors(
    found: Diagnostics, document: Mapping[str, Any], known: Collection[str]
) -> tuple[str, ...]:
    """Return the collectors of all trials: all that exist, unless the file lists them."""
    if "collectors" not in document:
        return tuple(known)
    names = document["collectors"]
    if not isinstance(names, list):
        found.add("collectors", f"{door.shown(names)} is no list", "a list of collectors, or []")
        return ()
    for name in names:
        if name not in known:
            found.unknown("collectors", "collector", name, known)
    return tuple(name for name in known if name in names)


def _concurrent(found: Diagnostics, document: Mapping[str, Any]) -> bool:
    said = document.get("concurrent", False)
    if not isinstance(said, bool):
        found.add("concurrent", f"{door.shown(said)} is not right", "true or false")
    return said is True


def _seed(found: Diagnostics, document: Mapping[str, Any]) -> int | None:
    if "seed" not in document:
        return None
    return door.integer(found, "seed", document["seed"], 0, MAX_SEED)


def _default_scale(
    found: Diagnostics, document: Mapping[str, Any], scales: Mapping[str, Settings]
) -> str | None:
    if (name := _optional_text(found, document, "default_scale")) is not None:
        if name not in scales and (scales or not found.about("scales")):
            found.unknown("default_scale", "scale", name, scales)
        return name
    return None


def _workload(
    found: Diagnostics, document: Mapping[str, Any]
) -> tuple[Workload | None, Mapping[str, Any]]:
    """Return the workload and its parameters.

    For an unknown workload, return the nearest one, so that everything else is checked as well.
    """
    if "workload" not in document:
        found.add("workload", "is missing", f"one of {', '.join(workloads.names())}")
        return None, {}
    name = door.text(found, "workload", document["workload"])
    if name is None:
        return None, {}
    if name not in workloads.names():
        meant = workloads.of_test(name)
        if meant is not None:
            found.add(
                "workload",
                f"{name!r} is a test of the workload {meant}",
                f'workload = "{meant}", and test = ["{name}"] in [factors]',
            )
        else:
            found.unknown("workload", "workload", name, workloads.names())
            meant = nearest(name, workloads.names())
        if meant is None:
            return None, {}
        name = meant
    definition = workloads.load(name)
    return workloads.checked(definition), definition


def _own_configurations(
    found: Diagnostics, document: Mapping[str, Any], surroundings: Surroundings
) -> Definitions:
    raw = door.table(found, "configurations", document.get("configurations", {}))
    own = {
        name: door.table(found, f"configurations.{name}", definition)
        for name, definition in raw.items()
    }
    for name in own:
        if name in surroundings.configurations:
            found.add(
                f"configurations.{name}",
                "is the name of a configuration that comes with millrace",
                f'another name, with extends = "{name}"',
            )
    for mistake in surroundings.check_configurations(own, surroundings.configurations):
        found.include(mistake)
    return own


def _compare(
    found: Diagnostics, document: Mapping[str, Any], vocabulary: Vocabulary
) -> tuple[str, Level | None]:
    """Return the compared factor and the base.

    For an unknown factor, return the nearest one, or an empty name, so that the base is checked as
    well.
    """
    if "compare" not in document:
        found.add("compare", "is missing", "a table [compare] with factor and base")
        return SERVER, None
    table = door.table(found, "compare", document["compare"])
    raw = found.keys("compare", table, ("factor", "base"))
    factor, known = raw.get("factor", SERVER), vocabulary.factor_names()
    varied_option = isinstance(factor, str) and factor.startswith(OPTION)
    if factor not in known and not varied_option and vocabulary.workload is not None:
        found.unknown("compare.factor", "factor", factor, known)
        factor = nearest(factor, known) or ""
    base = raw.get("base")
    if base is not None and not isinstance(base, str | int | float):
        found.add("compare.base", f"{door.shown(base)} is no level", "one level")
        base = None
    return str(factor), base


def _parameters_table(
    found: Diagnostics, document: Mapping[str, Any], workload: Workload | None
) -> Mapping[str, Any]:
    table = door.table(found, "parameters", document.get("parameters", {}))
    return found.keys("parameters", table, workload.parameters) if workload else table


def _scale(found: Diagnostics, where: str, raw: object, vocabulary: Vocabulary) -> Settings:
    table = door.table(found, where, raw)
    if vocabulary.workload is not None:
        known = (*vocabulary.workload.parameters, *_SCALE_KEYS)
        table = found.keys(where, table, known, tables=("factors",))
    parameters = {key: value for key, value in table.items() if key not in _SCALE_KEYS}
    return _settings(found, where, table, vocabulary, parameters=parameters)


def _settings(
    found: Diagnostics,
    where: str,
    table: Mapping[str, Any],
    vocabulary: Vocabulary,
    *,
    parameters: Mapping[str, Any],
) -> Settings:
    """Return the overridable part of the file (``where`` is empty) or of one scale."""
    prefix = f"{where}." if where else ""
    blocks = table.get("blocks")
    margin = table.get("margin_percent")
    profile_blocks = table.get("profile_blocks")
    factors = door.table(found, f"{prefix}factors", table.get("factors", {}))
    return Settings(
        where=where,
        blocks=(
            door.integer(found, f"{prefix}blocks", blocks, 1, MAX_BLOCKS)
            if "blocks" in table
            else None
        ),
        max_time_s=(
            _duration(found, f"{prefix}max_time", table["max_time"])
            if "max_time" in table
            else None
        ),
        profile_blocks=(
            door.integer(found, f"{prefix}profile_blocks", profile_blocks, 0, MAX_BLOCKS)
            if "profile_blocks" in table
            else None
        ),
        margin_percent=(
            door.number(found, f"{prefix}margin_percent", margin, 0, MAX_MARGIN_PERCENT)
            if "margin_percent" in table
            else None
        ),
        base=table.get("base"),
        factors=read_factors(found, f"{prefix}factors", factors, vocabulary),
        parameters=_parameters(found, where, parameters, vocabulary.workload),
    )


def _duration(found: Diagnostics, where: str, value: object) -> float | None:
    if isinstance(value, str):
        with suppress(ValueError):
            return durations.parse(value)
    found.add(where, f"{door.shown(value)} is not a duration", 'such as "45min" or "1h30min"')
    return None


def _parameters(
    found: Diagnostics, where: str, raw: Mapping[str, Any], workload: Workload | None
) -> Mapping[str, Any]:
    if workload is None:
        return raw
    for name, value in raw.items():
        if (wanted := workload.parameters[name].diagnose(value)) is not None:
            place = f"{where or 'parameters'}.{name}"
            found.add(place, f"{door.shown(value)} is not right", wanted)
    return raw


def _with_defaults(root: Settings, workload: Workload | None) -> Settings:
    if workload is None:
        return root
    # Values with a default per test stay unset: they depend on the treatment's test.
    defaults = {
        name: parameter.default
        for name, parameter in workload.parameters.items()
        if parameter.default is not None and name not in workload.test_values()
    }
    return replace(root, parameters={**defaults, **root.parameters})


def _completeness(found: Diagnostics, settings: Settings, vocabulary: Vocabulary) -> None:
    """Report missing settings.

    Only the merged settings show whether everything required is present.
    """
    at = f" at {settings.where.replace('.', ' ', 1)}" if settings.where else ""
    for role in vocabulary.roles:
        name = SERVER if role == DEFAULT_ROLE else f"{role}.{SERVER}"
        places = (f"factors.{name}", f"{settings.where}.factors.{name}")
        if name not in settings.factors and not found.about(*places):
            found.add(f"factors.{name}", f"is missing{at}", "a list of servers")
    for name, parameter in (vocabulary.workload.parameters if vocabulary.workload else {}).items():
        if parameter.default is None and name not in settings.parameters:
            place = f"{settings.where or 'parameters'}.{name}"
            if not found.about(place, f"parameters.{name}"):
                found.add(place, "is missing", f"a value for the workload's parameter {name}")


def _base(
    found: Diagnostics, root: Settings, scale: Settings, compared: str, vocabulary: Vocabulary
) -> None:
    """Check that the base is one of the compared levels, at this scale too."""
    merged = root.under(scale)
    factors = {factor.name: factor for factor in completed(merged.factors, vocabulary.roles)}
    if merged.base is None:
        if not found.about("compare.base"):
            found.add("compare.base", "is missing", f"one of the levels of {compared or SERVER}")
    elif compared in factors:
        _base_among(found, merged.base, root, scale, (factors[compared],))
    elif not compared:
        _base_among(found, merged.base, root, scale, tuple(factors.values()))
    elif vocabulary.has_factor(compared) and not found.about(
        "compare.factor", f"factors.{compared}", f"{scale.where}.factors.{compared}"
    ):
        found.add("compare.factor", f"{compared} is not varied", f"{compared} in [factors]")


def _base_among(
    found: Diagnostics, base: Level, root: Settings, scale: Settings, compared: tuple[Factor, ...]
) -> None:
    """Report a base that is no level of any factor that the user may mean."""
    levels = [level for factor in compared for level in factor.levels]
    if is_among(base, levels) or found.proposes(base):
        return
    of_file = [
        level for factor in compared for level in root.factors.get(factor.name, factor).levels
    ]
    # Report a wrong base of the file once, not again at every scale with levels of its own.
    of_scale = scale.where and (scale.base is not None or is_among(base, of_file))
    place = f"{scale.where}.base" if of_scale else "compare.base"
    noun = f"level of {compared[0].name}" if len(compared) == 1 else "level"
    found.unknown(place, noun, base, [str(level) for level in (levels if of_scale else of_file)])
