"""Read the settings that an experiment file has and each of its scales may override."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from millrace.experiment import levels
from millrace.experiment.diagnostics import Diagnostics, Table, shown
from millrace.experiment.levels import SERVER, Vocabulary
from millrace.experiment.model import Factor
from millrace.levels import Level
from millrace.quantities import parse_duration
from millrace.workloads import Workload

MAX_BLOCKS = 1000
_SECONDS = "_s"  # ends the names of times
_MOST_S = 30 * 24 * 3600
MAX_MARGIN_PERCENT = 50.0

_SCALE_KEYS = ("blocks", "max_time", "profile_blocks", "margin_percent", "base", "factors")
_SINGLE_VALUES = ("blocks", "max_time_s", "profile_blocks", "margin_percent", "base")


@dataclass(frozen=True)
class Settings:
    """The settings of a file (``where`` is empty) or of the scale at ``where``; None if unset."""

    where: str = ""
    blocks: int | None = None
    max_time_s: float | None = None
    profile_blocks: int | None = None
    margin_percent: float | None = None
    base: Level | None = None
    factors: Mapping[str, Factor] = field(default_factory=dict)
    parameters: Table = field(default_factory=dict)

    def under(self, scale: Settings) -> Settings:
        """Return these settings, overridden by those of ``scale``."""
        unset = [name for name in _SINGLE_VALUES if getattr(scale, name) is None]
        return replace(
            scale,
            **{name: getattr(self, name) for name in unset},
            factors={**self.factors, **scale.factors},
            parameters={**self.parameters, **scale.parameters},
        )


@dataclass(frozen=True, kw_only=True)
class CompleteSettings(Settings):
    """Settings with all values set, except perhaps ``max_time_s`` and ``profile_blocks``."""

    blocks: int
    margin_percent: float
    base: Level


def read_settings(
    errors: Diagnostics, where: str, table: Table, vocabulary: Vocabulary, *, parameters: Table
) -> Settings:
    """Return the settings of the file (``where`` is empty) or of one scale."""
    prefix = f"{where}." if where else ""

    def block_count(key: str, minimum: int) -> int | None:
        if key not in table:
            return None
        return errors.integer(f"{prefix}{key}", table[key], minimum, MAX_BLOCKS)

    max_time_s = margin_percent = None
    if "max_time" in table:
        max_time_s = _duration(errors, f"{prefix}max_time", table["max_time"])
    if "margin_percent" in table:
        margin = table["margin_percent"]
        margin_percent = errors.number(f"{prefix}margin_percent", margin, 0, MAX_MARGIN_PERCENT)
    factors = errors.table(f"{prefix}factors", table.get("factors", {}))
    return Settings(
        where=where,
        blocks=block_count("blocks", 1),
        max_time_s=max_time_s,
        profile_blocks=block_count("profile_blocks", 0),
        margin_percent=margin_percent,
        base=table.get("base"),
        factors=levels.read_factors(errors, f"{prefix}factors", factors, vocabulary),
        parameters=_parameters(errors, where, parameters, vocabulary.workload),
    )


def read_scale(errors: Diagnostics, where: str, raw: object, vocabulary: Vocabulary) -> Settings:
    """Return the settings of one scale; its other keys are parameters of the workload."""
    table = errors.table(where, raw)
    if vocabulary.workload is not None:
        known = (*vocabulary.workload.parameters, *_SCALE_KEYS)
        table = without_factors(errors, where, table, vocabulary)
        table = errors.keys(where, table, known, tables=("factors",))
    parameters = {key: value for key, value in table.items() if key not in _SCALE_KEYS}
    return read_settings(errors, where, table, vocabulary, parameters=parameters)


def without_factors(errors: Diagnostics, where: str, table: Table, vocabulary: Vocabulary) -> Table:
    """Return a table of parameters without the factors in it, which are reported as mistakes."""
    factors = "factors" if where == "parameters" else f"{where}.factors"
    found = [key for key in table if key in vocabulary.factor_names()]
    for name in found:
        errors.add(f"{where}.{name}", f"{name} is a factor: write it in [{factors}]")
    return {key: value for key, value in table.items() if key not in found}


def _duration(errors: Diagnostics, where: str, value: object) -> float | None:
    if isinstance(value, str):
        with suppress(ValueError):
            return parse_duration(value)
    errors.add(where, f"{shown(value)} is not a duration", 'such as "45min" or "1h30min"')
    return None


def _parameters(errors: Diagnostics, where: str, raw: Table, workload: Workload | None) -> Table:
    if workload is not None:
        for name, value in raw.items():
            place = f"{where or 'parameters'}.{name}"
            if (expected := workload.parameters[name].diagnose(value)) is not None:
                errors.wrong_value(place, value, expected)
            elif name.endswith(_SECONDS) and isinstance(value, int | float) and value > _MOST_S:
                errors.wrong_value(place, value, f"at most {_MOST_S} seconds (30 days)")
    return raw


def with_default_parameters(root: Settings, workload: Workload | None) -> Settings:
    """Return the settings with default parameters, except defaults that depend on the test."""
    if workload is None:
        return root
    defaults = {
        name: parameter.default
        for name, parameter in workload.parameters.items()
        if parameter.default is not None and name not in workload.test_values()
    }
    return replace(root, parameters={**defaults, **root.parameters})


def require_complete(errors: Diagnostics, settings: Settings, vocabulary: Vocabulary) -> None:
    """Report missing settings of a scale, after the file's settings were merged in."""
    at = f" at {settings.where.replace('.', ' ', 1)}" if settings.where else ""
    for role in vocabulary.roles if SERVER not in settings.factors else ():
        name = SERVER if role == levels.DEFAULT_ROLE else f"{role}.{SERVER}"
        tables = ("factors", f"{settings.where}.factors")
        places = [f"{table}.{each}" for table in tables for each in (name, SERVER)]
        if name not in settings.factors and not errors.has_error_at(*places):
            errors.add(f"factors.{name}", f"is missing{at}", "a list of servers")
    for name in levels.without_effect(settings.factors, vocabulary.roles):
        own = " and ".join(f"{role}.{name}" for role in vocabulary.roles)
        said = f"has no effect{at}: {own} replace it"
        errors.add(f"factors.{name}", said, f"either {name} or {own}")
    for name, parameter in (vocabulary.workload.parameters if vocabulary.workload else {}).items():
        if parameter.default is None and name not in settings.parameters:
            place = f"{settings.where or 'parameters'}.{name}"
            if not errors.has_error_at(place, f"parameters.{name}"):
                errors.add(place, "is missing", f"a value for the workload's parameter {name}")
