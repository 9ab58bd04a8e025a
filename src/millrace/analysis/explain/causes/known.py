"""Read the settings and builds that are known to matter, from a file for each line of servers."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, TypeAdapter

from millrace.analysis.explain.causes.evidence import CPU, StatementKind
from millrace.analysis.explain.time_breakdown import PartKey
from millrace.analysis.variables import number_of
from millrace.model.documents import exact

Dearer = Literal["on", "off", "larger", "smaller", "any", "set", "rate"] | tuple[str, ...]

_OFF = frozenset({"off", "0", "false", "no", "none", ""})
_OF_COUNTERS = ("grows", "spares", "signs")  # of a topic, besides what it acts by


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An option or factor under its ``names``, and which value costs more (known/*.toml).

    ``names`` are those that versions have for the very same variable. A setting with a ``title`` is
    computed from the server's state (``measured``), else by multiplying variables.
    """

    names: tuple[str, ...]
    does: str
    dearer: Dearer
    without: str | None = None
    beside: Mapping[str, str] = field(default_factory=dict)
    empty: str = ""
    requires: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    certainty: float = 1.0
    title: str = ""
    measured: str = ""
    multiplied: Mapping[str, str] = field(default_factory=dict)

    def name_in(self, side: Mapping[str, str]) -> str | None:
        """Return the name under which a side has the setting; None where it does not have it."""
        return next((name for name in self.names if name in side), None)

    def value(self, side: Mapping[str, str]) -> str | None:
        """Return the setting's value on one side; None where the side does not have it."""
        name = self.name_in(side)
        if self.title:
            return side.get(self.measured) or self._product(name, side)
        if name is not None:
            return side[name] or self.empty
        return next((of for other, of in self.beside.items() if other in side), self.without)

    def _product(self, name: str | None, side: Mapping[str, str]) -> str | None:
        if name is None or name not in self.multiplied:
            return None
        one, times = number_of(side[name]), self._times(name, side)
        return None if one is None else f"{one * times:.0f}"

    def _times(self, name: str, side: Mapping[str, str]) -> float:
        return number_of(side.get(self.multiplied.get(name, ""), "1")) or 1.0

    def option_value(self, value: str | None, side: Mapping[str, str]) -> str | None:
        """Return the value that the side's own option must have for a computed ``value``."""
        name, number = self.name_in(side), number_of(value or "")
        if not self.title or name is None or number is None:
            return value
        return f"{number / self._times(name, side):.0f}"

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
            _is_set(side.get(name)) if wanted == "set" else _same(side.get(name), wanted)
            for name, wanted in self.requires.items()
        )


@dataclass(frozen=True)
class Acts:
    """The work through which a topic acts: any of ``counters``, ``plans``, or ``every`` operation.

    An operation counts ``per_operation`` times or more; less than the default may be collectors'
    statements. It acts in ``statements`` of this kind alone, in all where that is None. With
    ``collations`` it acts through those of tables, as far as they are not known.
    """

    counters: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    per_operation: float = 0.1
    every: bool = False
    statements: StatementKind | None = None
    collations: bool = False


def _with_cpu(parts: list[str]) -> list[str]:
    return [part for each in parts for part in (CPU if each == "cpu" else (each,))]


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Settings that affect the same ``parts`` of an operation by the same means (known/*.toml)."""

    name: str
    parts: Annotated[tuple[PartKey, ...], BeforeValidator(_with_cpu)]
    groups: tuple[str, ...] = ()
    acts: Acts
    grows: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
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


@dataclass(frozen=True, kw_only=True)
class BuildFact(Topic):
    """A topic of builds: a fact of how a server was built, or a variable that it shows."""

    does: str
    fact: str | None = None
    variable: str | None = None


@exact
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
        TypeAdapter(Known).validate_python(_with_counts(tomllib.loads(source.read_text("utf-8"))))
        for source in sorted(known_files, key=lambda each: each.name)
    ]
    return Known(
        tuple(topic for each in read for topic in each.topic),
        tuple(fact for each in read for fact in each.build),
    )


def _with_counts(data: dict[str, Any]) -> dict[str, Any]:
    """Return a file's data with the counters of each set of ``counts`` in place of its name."""
    sets: Mapping[str, list[str]] = data.pop("counts", {})

    def counters(names: Iterable[str]) -> list[str]:
        return [counter for name in names for counter in sets.get(name, [name])]

    for topic in (*data["topic"], *data["build"]):
        topic |= {key: counters(topic[key]) for key in _OF_COUNTERS if key in topic}
        topic["acts"]["counters"] = counters(topic["acts"].get("counters", ()))
    return data


def is_known(name: str) -> bool:
    """Return whether a setting of this name is known to matter."""
    return any(name in each.names for topic in known().topic for each in topic.settings)


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
