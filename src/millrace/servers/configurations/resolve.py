"""Resolve a configuration's options for one server: apply layers, scale sizes.

A published configuration was written for one data set on one host. With smaller data, its sizes
keep their proportion to the data. They never exceed a share of the host's memory:

    size = min(published, max(minimum, per_data_byte x data))
    size = min(size, host_memory_share x memory of the host), but never below minimum

Sizes are rounded (up; down at the host's limit) to 16M below 128M, to 128M below 1G and to 1G
above, the granularity of buffer pools, so that the server does not adjust the value.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import NotRequired, TypedDict, cast

from millrace import databases
from millrace.databases.base import Options, version_key
from millrace.errors import UserError, did_you_mean
from millrace.levels import Level
from millrace.model.servers import Configuration, LeftOut, Option, option_name
from millrace.quantities import exact_size, parse_size, readable_size
from millrace.servers.configurations.check import about
from millrace.servers.configurations.option_file import LEFT_OUT, local_value

# The layer of options that an experiment varies.
VARIED = "factor"


Definition = Mapping[str, object]
"""A configuration as written, without errors (see ``check``)."""


class SizeRule(TypedDict):
    """A size that scales with the data, up to a share of the host's memory."""

    published: str
    per_data_byte: float
    minimum: str
    host_memory_share: NotRequired[float]


class _Tables(TypedDict, total=False):
    options: Mapping[str, Level | SizeRule]
    optional: Mapping[str, Level | SizeRule]
    without: Sequence[str]


_LeftOut = Mapping[str, Mapping[str, str]]

_When = TypedDict(
    "_When", {"family": str, "why": str, "from": NotRequired[str], "below": NotRequired[str]}
)


@dataclass(frozen=True)
class _Section:
    """A part of a definition that applies to the server; ``label`` names the options' layer."""

    label: str
    tables: _Tables
    why: str = ""


@dataclass
class _Draft:
    """The options while layers are applied, by the option that each spelling means."""

    options: dict[str, Option] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)


def lineage(name: str, definitions: Mapping[str, Definition]) -> tuple[str, ...]:
    """Return the configuration's name and the names that it extends, the base first."""
    if name not in definitions:
        raise UserError(
            f"unknown configuration {name!r}{did_you_mean(name, definitions)}",
            hint=f"use one of: {', '.join(sorted(definitions))}",
        )
    parent = definitions[name].get("extends")
    return (*lineage(parent, definitions), name) if isinstance(parent, str) and parent else (name,)


def resolve(
    name: str,
    *,
    family: str,
    version: str | None,
    definitions: Mapping[str, Definition],
    data_bytes: int,
    host_memory_bytes: int,
) -> Configuration:
    """Return the options that configuration ``name`` requests from a server.

    ``version`` is such as ``10.11.19``; None for an attached server, to which no ``when`` applies
    because millrace sets nothing there. ``definitions`` have passed ``check``; ``data_bytes`` is
    the size of the data. Options keep their first position. A higher layer replaces the value of a
    lower one, also across spellings (``skip_log_bin`` over ``log_bin``). Options that a ``when``
    removes are in ``left_out``, with the reason.
    """
    draft = _Draft()
    for layer in lineage(name, definitions):
        for section in _sections(layer, definitions[layer], family, version):
            _lay(draft, section, data_bytes, host_memory_bytes)
        for option, left in cast(_LeftOut, definitions[layer].get(LEFT_OUT, {})).items():
            dropped = Option(option, left["value"], optional=True, layer=layer)
            draft.left_out.setdefault(about(option), LeftOut(dropped, left["why"]))
    _leave_out_what_exceeds(draft, databases.get(family).options, host_memory_bytes)
    return Configuration(name, tuple(draft.options.values()), tuple(draft.left_out.values()))


def _leave_out_what_exceeds(draft: _Draft, rules: Options, host_memory_bytes: int) -> None:
    """Drop optional options that set a memory size larger than this host's memory."""
    for key, option in list(draft.options.items()):
        if not option.optional or rules.memory.isdisjoint(rules.forms(option.name)):
            continue
        size = _bytes_of(option.value)
        if size is not None and size > host_memory_bytes:
            has = readable_size(host_memory_bytes)
            reason = f"{option.value} is more than the {has} of memory that a server may use here"
            draft.left_out[key] = LeftOut(draft.options.pop(key), reason)


def laid_over(
    configuration: Configuration,
    varied: Mapping[str, str | int | float | bool],
    *,
    layer: str = VARIED,
    optional: bool = True,
) -> Configuration:
    """Return the configuration with a layer of an experiment's options on top, by name.

    A server that does not know an ``optional`` option runs without it, and reports say so. True
    switches an option on and False off, even if the default differs between versions: ``log_bin``.
    """
    options = {about(option.name): option for option in configuration.options}
    left_out = {about(left.option.name): left for left in configuration.left_out}
    for name, level in varied.items():
        left_out.pop(name, None)
        options[name] = Option(
            name=f"skip_{name}" if level is False else name,
            value=None if isinstance(level, bool) else local_value(name, str(level)),
            optional=optional,
            layer=layer,
        )
    return Configuration(configuration.name, tuple(options.values()), tuple(left_out.values()))


def _bytes_of(value: str | None) -> int | None:
    """Return the bytes of a size; None if the value is not a size."""
    try:
        return parse_size(value or "")
    except ValueError:
        return None


def _sections(
    layer: str, definition: Definition, family: str, version: str | None
) -> Iterator[_Section]:
    yield _Section(layer, cast(_Tables, definition))
    if family in definition:
        yield _Section(f"{layer}, {family}", cast(_Tables, definition[family]))
    for when in cast(Sequence[_When], definition.get("when", ())):
        if when["family"] == family and version is not None and _holds(when, version):
            bounds = " ".join(f"{key} {at}" for key, at in _bounds(when))
            yield _Section(f"{layer}, {family} {bounds}", cast(_Tables, when), when["why"])


def _bounds(when: _When) -> Iterator[tuple[str, str]]:
    if "from" in when:
        yield "from", when["from"]
    if "below" in when:
        yield "below", when["below"]


def _lay(draft: _Draft, section: _Section, data_bytes: int, host_memory_bytes: int) -> None:
    tables = section.tables
    for kind, options in (("options", tables.get("options")), ("optional", tables.get("optional"))):
        for name, value in (options or {}).items():
            if isinstance(value, dict):
                text: str | None = scaled(
                    value, data_bytes=data_bytes, host_memory_bytes=host_memory_bytes
                )
            else:
                text = None if value is True else local_value(name, str(value))
            option = Option(option_name(name), text, kind == "optional", section.label)
            draft.options[about(name)] = option
            draft.left_out.pop(about(name), None)
    for name in tables.get("without", ()):
        if (removed := draft.options.pop(about(name), None)) is not None:
            draft.left_out[about(name)] = LeftOut(removed, section.why)


def _holds(when: _When, version: str) -> bool:
    ours = version_key(version)
    return ours >= version_key(when.get("from", "0")) and (
        "below" not in when or ours < version_key(when["below"])
    )


def load_builtin() -> Mapping[str, Definition]:
    """Return the definition of every shipped configuration, sorted by name."""
    folder = files("millrace.servers.configurations")
    paths = [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return {
        path.name.removesuffix(".toml"): tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted(paths, key=lambda entry: entry.name)
    }


_MIB = 1 << 20
_GRAINS = ((128 * _MIB, 16 * _MIB), (1024 * _MIB, 128 * _MIB))  # of sizes below the first number


def scaled(rule: SizeRule, *, data_bytes: int, host_memory_bytes: int) -> str:
    """Return the size, such as ``4G``, that a valid rule gives for this data and host."""
    published, minimum = parse_size(rule["published"]), parse_size(rule["minimum"])
    size = min(published, max(minimum, _rounded(rule["per_data_byte"] * data_bytes, math.ceil)))
    share = rule.get("host_memory_share")
    if share is not None:
        size = max(minimum, min(size, _rounded(share * host_memory_bytes, math.floor)))
    return exact_size(size)


def _rounded(size: float, to_whole: Callable[[float], int]) -> int:
    grain = next((grain for below, grain in _GRAINS if size < below), 1024 * _MIB)
    return to_whole(size / grain) * grain
