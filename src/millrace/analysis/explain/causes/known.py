"""Read the settings and builds that are known to matter, from a file for each line of servers."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BeforeValidator, TypeAdapter

from millrace.analysis.explain.breakdown_model import PartKey
from millrace.analysis.explain.causes.evidence import CPU
from millrace.analysis.variables import number_of

Dearer = Literal["on", "off", "larger", "smaller", "any", "set", "rate"] | tuple[str, ...]

_OFF = frozenset({"off", "0", "false", "no", "none", ""})


@dataclass(frozen=True)
class Setting:
    """An option or factor under its ``names``, and which value costs more (known/*.toml)."""

    names: tuple[str, ...]
    dearer: Dearer
    without: str | None = None
    beside: Mapping[str, str] = field(default_factory=dict)
    empty: str = ""
    requires: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, *sides: Mapping[str, str]) -> str:
        """Return the name under which all sides have it, else any."""
        for has in (all, any):
            for name in self.names:
                if has(name in side for side in sides):
                    return name
        return self.names[0]

    def value(self, settings: Mapping[str, str]) -> str | None:
        """Return the setting's value on one side; None where the side does not have it."""
        own = [settings[name] or self.empty for name in self.names if name in settings]
        by_others = [value for name, value in self.beside.items() if name in settings]
        return next(iter([*own, *by_others]), self.without)

    def is_dearer(self, better: Mapping[str, str], worse: Mapping[str, str]) -> bool:
        """Return whether the worse side has the value that costs more, and that it counts there."""
        one, other = self.value(better), self.value(worse)
        if one == other or _same(one, other) or not self._counts(worse):
            return False
        if self.dearer == "set":
            return _is_set(other) and not _is_set(one)
        if one is None or other is None:
            return False
        return self.dearer == "any" or _cost(self.dearer, other) > _cost(self.dearer, one)

    def _counts(self, side: Mapping[str, str]) -> bool:
        return all(
            name in side and _same(side[name], wanted) for name, wanted in self.requires.items()
        )


@dataclass(frozen=True)
class Only:
    """The needs of a topic to matter: any of ``counters``, or any of ``plans`` in EXPLAIN's text.

    An operation counts ``per_operation`` times or more; less than the default may be collectors'
    statements.
    """

    counters: tuple[str, ...]
    plans: tuple[str, ...] = ()
    per_operation: float = 0.1


def _with_cpu(parts: list[str]) -> list[str]:
    return [part for each in parts for part in (CPU if each == "cpu" else (each,))]


@dataclass(frozen=True)
class Topic:
    """Settings that affect the same ``parts`` of an operation (see known/*.toml)."""

    name: str
    does: str
    parts: Annotated[tuple[PartKey, ...], BeforeValidator(_with_cpu)]
    groups: tuple[str, ...]
    cpu_share: float | None = None
    counters: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    only: Only | None = None
    clients: int = 1
    by_plan: bool = False
    certainty: float = 1.0
    settings: tuple[Setting, ...] = ()

    @property
    def cpu(self) -> tuple[PartKey, ...]:
        """Return its parts that are CPU time."""
        return tuple(part for part in self.parts if part in CPU)

    @property
    def waits(self) -> tuple[PartKey, ...]:
        """Return its other parts."""
        return tuple(part for part in self.parts if part not in CPU)


@dataclass(frozen=True)
class BuildFact(Topic):
    """A topic of builds: a fact of how a server was built, or a variable that it shows."""

    fact: str | None = None
    variable: str | None = None


@dataclass(frozen=True)
class Known:
    """All known facts about settings (``topic``) and builds (``build``), as in the files."""

    topic: tuple[Topic, ...]
    build: tuple[BuildFact, ...]


@lru_cache(maxsize=1)
def known() -> Known:
    """Return all known facts about settings, of every line of servers."""
    known_files = (files("millrace.analysis.explain.causes") / "known").iterdir()
    read = [
        TypeAdapter(Known).validate_python(tomllib.loads(source.read_text("utf-8")))
        for source in sorted(known_files, key=lambda each: each.name)
    ]
    return Known(
        tuple(topic for each in read for topic in each.topic),
        tuple(fact for each in read for fact in each.build),
    )


def needed(values: Mapping[str, str]) -> dict[str, str]:
    """Return the further settings that a server needs to start with these values."""
    found: dict[str, str] = {}
    for setting in (each for topic in known().topic for each in topic.settings):
        if any(values.get(name, "").lower() not in _OFF for name in setting.names):
            found |= setting.needs
    return {name: value for name, value in found.items() if name not in values}


def _same(one: str | None, other: str | None) -> bool:
    """Return whether two values, such as ``ON`` and ``1``, sizes or lists, are the same."""
    if one is None or other is None:
        return one is other
    a, b = one.strip().lower(), other.strip().lower()
    if sorted(a.split(",")) == sorted(b.split(",")):
        return True
    switches = {"on": "1", "true": "1", "yes": "1", "off": "0", "false": "0", "no": "0"}
    a, b = switches.get(a, a), switches.get(b, b)
    number = number_of(a)
    return a == b or (number is not None and number == number_of(b))


def _is_set(value: str | None) -> bool:
    return value is not None and value.strip().lower() not in _OFF


def _cost(dearer: Dearer, value: str) -> float:
    """Return the cost of a value, comparable with other values of the same setting only."""
    text = value.strip().lower()
    if isinstance(dearer, tuple):
        order = [known_value.lower() for known_value in dearer]
        spelled = {"1": "on", "0": "off"}.get(text, text)
        return float(
            next((order.index(each) for each in (text, spelled) if each in order), len(order) // 2)
        )
    if dearer in ("on", "off"):
        return float(_is_set(value) == (dearer == "on"))
    number = number_of(text) or 0.0
    if dearer == "rate":
        return 1 / number if number > 0 else 0.0
    return number if dearer == "larger" else -number
