"""Define a workload's factors, which vary, and parameters, which all trials share."""

import re
from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from millrace.levels import Level

Definition = Mapping[str, Any]
"""A workload or a part of it as plain data; the load generator defines the format."""

Kind = Literal["text", "integer", "number", "boolean"]

# Free levels are inserted into statements unchanged.
_FREE_LEVEL = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_CPUS = 'numbers of CPUs such as "0" or "1-3,5", or "" for any'
_CPU_RANGES = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*")

_LARGEST = 2**63 - 1  # the largest integer of TOML

FREE_LEVEL = "a letter, then letters, digits and _, at most 64 in all"

_KINDS: dict[type, Kind] = {str: "text", bool: "boolean", int: "integer", float: "number"}
_IN_WORDS = {
    "text": "text in quotes",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
}


class Misplaced(ValueError):
    """A mistake in a definition; ``where`` is its place below the part that is checked."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where


class DefinitionPart(BaseModel):
    """A part of a definition: unknown keys are errors, and values are not converted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class WorkloadFactor(DefinitionPart):
    """A factor that an experiment may vary.

    ``choices``: all possible levels.
    ``free``: any level of the default's kind is accepted: a name, such as an ``engine``, whose case
    does not matter and which only the server checks; or a number from ``minimum`` to ``maximum``.
    ``kind``: the kind of the default unless set; ``number`` also accepts integers.
    ``after_start``: levels that need a server which is started after its tables were loaded.
    ``comparable``: false if the levels do different work.
    """

    default: Level
    kind: Kind | None = None
    choices: list[Level] = Field(default=[])
    free: bool = False
    minimum: int | float | None = None
    maximum: int | float | None = None
    after_start: list[Level] = Field(default=[])
    comparable: bool = True

    @model_validator(mode="after")
    def _free_or_choices(self) -> Self:
        if self.free == bool(self.choices):
            raise ValueError("a factor needs either choices or free = true")
        limits = (self.minimum, self.maximum)
        if self.kind_of_level in ("text", "boolean") and limits != (None, None):
            raise ValueError("only numbers have a minimum and a maximum")
        if self.choices and self.default not in self.choices:
            raise ValueError(f"the default {self.default!r} is not among the choices")
        if (wanted := self.diagnose(self.default)) is not None:
            raise ValueError(f"the default {self.default!r} is not {wanted}")
        return self

    @property
    def kind_of_level(self) -> Kind:
        return self.kind or _KINDS[type(self.default)]

    @property
    def caseless(self) -> bool:
        return self.free and self.kind_of_level == "text"

    def diagnose(self, level: object) -> str | None:
        """Return None if ``level`` is valid; otherwise describe the valid levels."""
        kind = self.kind_of_level
        if not _is_of(kind, level):
            return _IN_WORDS[kind] + _between(self.minimum, self.maximum)
        if not self.free:
            known = any(type(level) is type(each) and level == each for each in self.choices)
            return None if known else f"one of {', '.join(str(each) for each in self.choices)}"
        if isinstance(level, str):
            return None if _FREE_LEVEL.fullmatch(level) else FREE_LEVEL
        if _is_outside(level, self.minimum, self.maximum):
            return _IN_WORDS[kind] + _between(self.minimum, _limit(level, self.maximum))
        return None

    def canonical(self, level: Level) -> Level:
        """Return the canonical form of a level: 8.0 becomes 8 if any number is accepted."""
        if self.kind_of_level == "number" and isinstance(level, float) and level.is_integer():
            return int(level)
        return level


class Parameter(DefinitionPart):
    """A value that an experiment sets once for all its trials; required without ``default``.

    A text may be restricted to ``choices``. The kind ``cpus`` is a text for ``cpu_numbers``.
    """

    kind: Literal["integer", "number", "text", "cpus"]
    default: int | float | str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: list[str] = Field(default=[])

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kind != "text" and self.choices:
            raise ValueError('only a parameter of kind "text" may have choices')
        if self.default is not None and (wanted := self.diagnose(self.default)) is not None:
            raise ValueError(f"the default {self.default!r} is not {wanted}")
        return self

    def diagnose(self, value: object) -> str | None:
        """Return None if ``value`` is valid; otherwise describe the valid values."""
        if self.kind == "cpus":
            return None if _names_cpus(value) else _CPUS
        if not _is_of(self.kind, value) or _is_outside(value, self.minimum, self.maximum):
            return _IN_WORDS[self.kind] + _between(self.minimum, _limit(value, self.maximum))
        if self.choices and value not in self.choices:
            return f"one of {', '.join(self.choices)}"
        return None


def texts_of(part: object) -> Iterator[str]:
    """Yield every text in a part of a definition."""
    match part:
        case str():
            yield part
        case Mapping():
            yield from texts_of(list(part.values()))
        case list():
            for each in part:
                yield from texts_of(each)


def cpu_numbers(text: str) -> tuple[int, ...] | None:
    """Return the CPUs of a text such as ``1-3,5``; None if it is empty. Raise ValueError."""
    if not text:
        return None
    if not _CPU_RANGES.fullmatch(text):
        raise ValueError(f"{text!r} is not {_CPUS}")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        if not numbers:
            raise ValueError(f"the range {part} ends before it begins")
        found.update(numbers)
    return tuple(sorted(found))


def _names_cpus(value: object) -> bool:
    try:
        cpu_numbers(value if isinstance(value, str) else "-")
    except ValueError:
        return False
    return True


def _is_of(kind: Kind, value: object) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number and not (isinstance(value, float) and not isfinite(value))


def _is_outside(value: object, minimum: float | None, maximum: float | None) -> bool:
    limit = _limit(value, maximum)
    return isinstance(value, int | float) and (
        (minimum is not None and value < minimum) or (limit is not None and value > limit)
    )


def _limit(value: object, maximum: float | None) -> float | None:
    """Return the largest valid value to report: ``maximum``, or TOML's limit for a larger value."""
    is_huge = isinstance(value, int | float) and _LARGEST < value < inf
    return _LARGEST if maximum is None and is_huge else maximum


def _between(minimum: float | None, maximum: float | None) -> str:
    return (f" from {minimum}" if minimum is not None else "") + (
        f" to {maximum}" if maximum is not None else ""
    )
