"""Resolve a configuration's options for one server: apply layers, scale sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.databases.base import option_name, version_key
from millrace.errors import UserError, nearest
from millrace.model.servers import Configuration, LeftOut, Option
from millrace.servers.configurations.check import about
from millrace.servers.configurations.scaling import scaled

# The layer of options that an experiment varies.
VARIED = "factor"


@dataclass(frozen=True)
class _Section:
    """One part of a definition that applies to the server.

    ``label`` becomes the layer of its options.
    """

    label: str
    tables: Mapping[str, Any]
    why: str = ""


@dataclass
class _Draft:
    """The options while layers are applied, by the option that each refers to."""

    options: dict[str, Option] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)


def lineage(name: str, definitions: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the configuration's name and those it extends, lowest first."""
    if name not in definitions:
        near = nearest(name, definitions)
        raise UserError(
            f"there is no configuration {name!r}" + (f"; did you mean {near!r}?" if near else ""),
            hint=f"use one of: {', '.join(sorted(definitions))}",
        )
    parent = definitions[name].get("extends")
    return (*lineage(parent, definitions), name) if parent else (name,)


def resolve(
    name: str,
    *,
    family: str,
    version: str | None,
    definitions: Mapping[str, Mapping[str, Any]],
    data_bytes: int,
    host_memory_bytes: int,
) -> Configuration:
    """Return the options that ``name`` requests from a server of ``family`` and ``version``.

    A version is ``10.11.19``, for example. An attached server's is None: no ``when`` applies,
    because nothing is set there. ``definitions`` are checked (see ``check``); ``data_bytes`` is the
    size of the data. Options keep their first position; a higher layer replaces the value of a
    lower one, also across spellings (``skip_log_bin`` over ``log_bin``). Options that a ``when``
    removes are in ``left_out``, with the reason.
    """
    draft = _Draft()
    for layer in lineage(name, definitions):
        for section in _sections(layer, definitions[layer], family, version):
            _lay(draft, section, data_bytes, host_memory_bytes)
    return Configuration(name, tuple(draft.options.values()), tuple(draft.left_out.values()))


def laid_over(
    configuration: Configuration, varied: Mapping[str, str | int | float | bool]
) -> Configuration:
    """Return the configuration with the experiment's varied options on top, by their names.

    A server that does not know an option goes without it, and reports say so. True switches an
    option on and false off, even if its default differs between versions: ``log_bin``.
    """
    options = {about(option.name): option for option in configuration.options}
    left_out = {about(left.option.name): left for left in configuration.left_out}
    for name, level in varied.items():
        left_out.pop(name, None)
        options[name] = Option(
            name=f"skip_{name}" if level is False else name,
            value=None if isinstance(level, bool) else str(level),
            optional=True,
            layer=VARIED,
        )
    return Configuration(configuration.name, tuple(options.values()), tuple(left_out.values()))


def _sections(
    layer: str, definition: Mapping[str, Any], family: str, version: str | None
) -> Iterator[_Section]:
    yield _Section(layer, definition)
    if family in definition:
        yield _Section(f"{layer}, {family}", definition[family])
    for when in definition.get("when", ()):
        if when["family"] == family and version is not None and _holds(when, version):
            bounds = " ".join(f"{key} {when[key]}" for key in ("from", "below") if key in when)
            yield _Section(f"{layer}, {family} {bounds}", when, when["why"])


def _lay(draft: _Draft, section: _Section, data_bytes: int, host_memory_bytes: int) -> None:
    for kind in ("options", "optional"):
        for name, value in section.tables.get(kind, {}).items():
            if isinstance(value, Mapping):
                text: str | None = scaled(
                    value, data_bytes=data_bytes, host_memory_bytes=host_memory_bytes
                )
            else:
                text = None if value is True else str(value)
            option = Option(option_name(name), text, kind == "optional", section.label)
            draft.options[about(name)] = option
            draft.left_out.pop(about(name), None)
    for name in section.tables.get("without", ()):
        if (removed := draft.options.pop(about(name), None)) is not None:
            draft.left_out[about(name)] = LeftOut(removed, section.why)


def _holds(when: Mapping[str, Any], version: str) -> bool:
    ours = version_key(version)
    return ours >= version_key(when.get("from", "0")) and (
        "below" not in when or ours < version_key(when["below"])
    )
