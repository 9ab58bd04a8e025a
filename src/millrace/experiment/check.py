"""Everything an experiment file must satisfy before a plan is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from millrace import workloads
from millrace.errors import Mistake
from millrace.experiment import mistakes as door
from millrace.experiment.levels import (
    DEFAULT_ROLE,
    SERVER,
    Vocabulary,
    completed,
    read_factors,
)
from millrace.experiment.mistakes import Mistakes
from millrace.experiment.model import Factor, Level
from millrace.workloads import Workload

MAX_NAME_LENGTH = 64  # run ids and names of files begin with it
MAX_BLOCKS = 1000
MAX_SEED = 2**63 - 1
DEFAULT_BLOCKS = 5
DEFAULT_MARGIN_PERCENT = 2.0

_TOP_KEYS = (
    "name", "title", "workload", "published", "seed", "blocks", "margin_percent",
    "default_scale", "factors", "compare", "parameters", "configurations", "scales",
)  # fmt: skip
_SCALE_KEYS = ("blocks", "margin_percent", "base", "factors")

_NAME = re.compile(r"[^\W_][\w.-]*")

Definitions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Surroundings:
    """What an experiment may refer to outside its file: the names of servers, the shipped
    configurations, and the check of those it defines itself (definitions, known ones)."""

    servers: Collection[str]
    configurations: Definitions
    check_configurations: Callable[[Definitions, Definitions], list[Mistake]]


@dataclass(frozen=True)
class Settings:
    """What a scale may override. The file itself is the first scale; None is not said."""

    where: str = ""
    blocks: int | None = None
    margin_percent: float | None = None
    base: Level | None = None
    factors: Mapping[str, Factor] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def under(self, scale: Settings) -> Settings:
        """These settings with those of ``scale`` laid over them."""
        return Settings(
            where=scale.where,
            blocks=self.blocks if scale.blocks is None else scale.blocks,
            margin_percent=(
                self.margin_percent if scale.margin_percent is None else scale.margin_percent
            ),
            base=self.base if scale.base is None else scale.base,
            factors={**self.factors, **scale.factors},
            parameters={**self.parameters, **scale.parameters},
        )


@dataclass(frozen=True)
class Checked:
    """A file's content after the checks; sensible only when ``mistakes`` found nothing."""

    name: str
    title: str
    published: str | None
    seed: int | None
    default_scale: str | None
    workload: Mapping[str, Any]
    definitions: Definitions
    compared: str
    root: Settings
    scales: Mapping[str, Settings]
    roles: tuple[str, ...]

    def at(self, scale: str | None) -> Settings:
        """The settings at a scale; defaults filled in."""
        settings = self.root if scale is None else self.root.under(self.scales[scale])
        factors = completed(settings.factors, self.roles)
        return replace(
            settings,
            blocks=settings.blocks or DEFAULT_BLOCKS,
            margin_percent=settings.margin_percent or DEFAULT_MARGIN_PERCENT,
            factors={factor.name: factor for factor in factors},
        )


def check(document: Mapping[str, Any], surroundings: Surroundings) -> tuple[Checked, Mistakes]:
    """Check a parsed file: all its scales, not only the one that is wanted now."""
    found = Mistakes()
    found.keys("", document, _TOP_KEYS)
    workload, definition = _workload(found, document)
    own = _own_configurations(found, document, surroundings)
    vocabulary = Vocabulary(
        servers=surroundings.servers,
        configurations={*surroundings.configurations, *own},
        workload=workload,
        roles=tuple(workload.roles) if workload else (DEFAULT_ROLE,),
    )
    compared, base = _compare(found, document, vocabulary)
    root = replace(
        _settings(found, "", document, vocabulary, parameters=_parameters_table(found, document)),
        base=base,
    )
    scales = {
        name: _scale(found, f"scales.{name}", raw, vocabulary)
        for name, raw in door.table(found, "scales", document.get("scales", {})).items()
    }
    for scale in scales.values() or [Settings()]:
        _completeness(found, root.under(scale), vocabulary)
        _base(found, root, scale, compared, vocabulary)
    checked = Checked(
        name=_name(found, document),
        title=_optional_text(found, document, "title") or str(document.get("name", "")),
        published=_optional_text(found, document, "published"),
        seed=_seed(found, document),
        default_scale=_default_scale(found, document, scales),
        workload=definition,
        definitions={**surroundings.configurations, **own},
        compared=compared,
        root=_with_defaults(root, workload),
        scales=scales,
        roles=vocabulary.roles,
    )
    return checked, found


def _name(found: Mistakes, document: Mapping[str, Any]) -> str:
    name = document.get("name")
    expected = "letters, digits, - _ and . in quotes, the first a letter or digit"
    if name is None:
        found.add("name", "is missing", expected)
    elif not isinstance(name, str) or _NAME.fullmatch(name) is None:
        found.add("name", f"{door.shown(name)} is not a name", expected)
    elif len(name) > MAX_NAME_LENGTH:
        said = f"{door.shown(name)} has {len(name)} characters"
        found.add("name", said, f"at most {MAX_NAME_LENGTH}")
    else:
        return name
    return ""


def _optional_text(found: Mistakes, document: Mapping[str, Any], key: str) -> str | None:
    return door.text(found, key, document[key]) if key in document else None


def _seed(found: Mistakes, document: Mapping[str, Any]) -> int | None:
    if "seed" not in document:
        return None
    return door.integer(found, "seed", document["seed"], 0, MAX_SEED)


def _default_scale(
    found: Mistakes, document: Mapping[str, Any], scales: Mapping[str, Settings]
) -> str | None:
    if (name := _optional_text(found, document, "default_scale")) is not None:
        if name not in scales:
            found.unknown("default_scale", "scale", name, scales)
        return name
    return None


def _workload(
    found: Mistakes, document: Mapping[str, Any]
) -> tuple[Workload | None, Mapping[str, Any]]:
    if "workload" not in document:
        found.add("workload", "is missing", f"one of {', '.join(workloads.names())}")
        return None, {}
    name = door.text(found, "workload", document["workload"])
    if name is None:
        return None, {}
    if name not in workloads.names():
        found.unknown("workload", "workload", name, workloads.names())
        return None, {}
    definition = workloads.load(name)
    return workloads.checked(definition), definition


def _own_configurations(
    found: Mistakes, document: Mapping[str, Any], surroundings: Surroundings
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
        found.found.append(mistake)
    return own


def _compare(
    found: Mistakes, document: Mapping[str, Any], vocabulary: Vocabulary
) -> tuple[str, Level | None]:
    if "compare" not in document:
        found.add("compare", "is missing", "a table [compare] with factor and base")
        return SERVER, None
    raw = door.table(found, "compare", document["compare"])
    found.keys("compare", raw, ("factor", "base"))
    factor = raw.get("factor", SERVER)
    if factor not in vocabulary.factor_names() and vocabulary.workload is not None:
        found.unknown("compare.factor", "factor", factor, vocabulary.factor_names())
        factor = ""
    base = raw.get("base")
    if base is not None and not isinstance(base, str | int | float):
        found.add("compare.base", f"{door.shown(base)} is no level", "one level")
        base = None
    return str(factor), base


def _parameters_table(found: Mistakes, document: Mapping[str, Any]) -> Mapping[str, Any]:
    return door.table(found, "parameters", document.get("parameters", {}))


def _scale(found: Mistakes, where: str, raw: object, vocabulary: Vocabulary) -> Settings:
    table = door.table(found, where, raw)
    parameters = {key: value for key, value in table.items() if key not in _SCALE_KEYS}
    return _settings(found, where, table, vocabulary, parameters=parameters)


def _settings(
    found: Mistakes,
    where: str,
    table: Mapping[str, Any],
    vocabulary: Vocabulary,
    *,
    parameters: Mapping[str, Any],
) -> Settings:
    """The overridable part of the file (``where`` is empty) or of one scale."""
    prefix = f"{where}." if where else ""
    blocks = table.get("blocks")
    margin = table.get("margin_percent")
    factors = door.table(found, f"{prefix}factors", table.get("factors", {}))
    return Settings(
        where=where,
        blocks=(
            door.integer(found, f"{prefix}blocks", blocks, 1, MAX_BLOCKS)
            if "blocks" in table
            else None
        ),
        margin_percent=(
            door.number(found, f"{prefix}margin_percent", margin, 0, 50)
            if "margin_percent" in table
            else None
        ),
        base=table.get("base"),
        factors=read_factors(found, f"{prefix}factors", factors, vocabulary),
        parameters=_parameters(found, where, parameters, vocabulary.workload),
    )


def _parameters(
    found: Mistakes, where: str, raw: Mapping[str, Any], workload: Workload | None
) -> Mapping[str, Any]:
    if workload is None:
        return raw
    known = workload.parameters
    found.keys(where or "parameters", raw, (*known, *(_SCALE_KEYS if where else ())))
    for name in known.keys() & raw.keys():
        if (wanted := known[name].complaint(raw[name])) is not None:
            place = f"{where or 'parameters'}.{name}"
            found.add(place, f"{door.shown(raw[name])} is not right", wanted)
    return {name: raw[name] for name in raw if name in known}


def _with_defaults(root: Settings, workload: Workload | None) -> Settings:
    if workload is None:
        return root
    defaults = {
        name: parameter.default
        for name, parameter in workload.parameters.items()
        if parameter.default is not None
    }
    return replace(root, parameters={**defaults, **root.parameters})


def _completeness(found: Mistakes, settings: Settings, vocabulary: Vocabulary) -> None:
    """Only the merged settings can tell whether everything needed is there."""
    at = f" at {settings.where.replace('.', ' ', 1)}" if settings.where else ""
    for role in vocabulary.roles:
        name = SERVER if role == DEFAULT_ROLE else f"{role}.{SERVER}"
        if name not in settings.factors and not found.about(f"factors.{name}"):
            found.add(f"factors.{name}", f"is missing{at}", "a list of servers")
    for name, parameter in (vocabulary.workload.parameters if vocabulary.workload else {}).items():
        if parameter.default is None and name not in settings.parameters:
            place = f"{settings.where or 'parameters'}.{name}"
            if not found.about(place):
                found.add(place, "is missing", f"a value for the workload's parameter {name}")


def _base(
    found: Mistakes, root: Settings, scale: Settings, compared: str, vocabulary: Vocabulary
) -> None:
    """The base is one of the levels that are compared, at this scale too."""
    merged = root.under(scale)
    factors = {factor.name: factor for factor in completed(merged.factors, vocabulary.roles)}
    if not compared or found.about("compare.factor"):
        return
    if compared not in factors:
        if not found.about(f"factors.{compared}"):
            found.add("compare.factor", f"{compared} is not varied", f"{compared} in [factors]")
    elif merged.base is None:
        if not found.about("compare"):
            found.add("compare.base", "is missing", f"one of the levels of {compared}")
    elif merged.base not in factors[compared].levels:
        ours = scale.base is not None or compared in scale.factors
        levels = [str(level) for level in factors[compared].levels]
        place = f"{scale.where}.base" if ours and scale.where else "compare.base"
        found.unknown(place, f"level of {compared}", merged.base, levels)
