"""Find every error in configuration definitions, before any server is started."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from millrace import databases
from millrace.databases.base import Options
from millrace.errors import Diagnostic, nearest
from millrace.model.servers import option_name
from millrace.quantities import parse_size

FAMILIES = databases.names()
VERSION = re.compile(r"\d+(\.\d+)*")

_SECTIONS = ("options", "optional")
_TOP_KEYS = ("title", "extends", "file", *_SECTIONS, *FAMILIES, "when")
_WHEN_KEYS = ("family", "from", "below", "why", *_SECTIONS, "without")
_SIZE_KEYS = ("published", "per_data_byte", "minimum", "host_memory_share")
_LONGEST_VALUE = 10_000
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def about(name: str) -> str:
    """Return the option that a spelling means: ``log_bin`` for ``skip_log_bin``."""
    return databases.option_forms(name)[-1]


def check(
    definitions: Mapping[str, Mapping[str, object]],
    known: Mapping[str, Mapping[str, object]] | None = None,
) -> list[Diagnostic]:
    """Return the errors in ``definitions``, which may also extend those in ``known``."""
    everything = {**(known or {}), **definitions}
    diagnostics: list[Diagnostic] = []
    for name, definition in definitions.items():
        where = f"configurations.{name}"
        diagnostics += _definition(where, definition)
        diagnostics += _lineage(where, name, everything)
    return diagnostics


def _definition(where: str, definition: Mapping[str, object]) -> Iterator[Diagnostic]:
    yield from _unknown(where, definition, _TOP_KEYS)
    for key in ("title", "extends", "file"):
        if key in definition and not isinstance(definition[key], str):
            yield Diagnostic(f"{where}.{key}", "is not text", "text in quotes")
    yield from _sections(where, definition)
    for family in FAMILIES:
        table = definition.get(family, {})
        if not isinstance(table, dict):
            yield Diagnostic(f"{where}.{family}", "is not a table", f"[{where}.{family}.options]")
            continue
        yield from _unknown(f"{where}.{family}", table, _SECTIONS)
        yield from _sections(f"{where}.{family}", table)
    whens = definition.get("when", [])
    if not isinstance(whens, list) or not all(isinstance(when, dict) for when in whens):
        yield Diagnostic(f"{where}.when", "is not a list of tables", f"[[{where}.when]]")
        return
    for index, when in enumerate(whens):
        yield from _when(f"{where}.when[{index}]", when)


def _when(where: str, when: Mapping[str, object]) -> Iterator[Diagnostic]:
    yield from _unknown(where, when, _WHEN_KEYS)
    if when.get("family") not in FAMILIES:
        yield Diagnostic(f"{where}.family", "is missing or unknown", " or ".join(FAMILIES))
    if not isinstance(why := when.get("why"), str) or not why.strip():
        yield Diagnostic(f"{where}.why", "is missing", "the reason in words, for reports")
    if not {"from", "below"} & when.keys():
        yield Diagnostic(
            where, "names no version", "from or below, or a table of the family instead"
        )
    for key in ("from", "below"):
        version = when.get(key, "0")
        if not isinstance(version, str) or not VERSION.fullmatch(version):
            yield Diagnostic(f"{where}.{key}", f"{version!r} is not a version", 'such as "10.6"')
    yield from _sections(where, when)
    without = when.get("without", [])
    if not isinstance(without, list) or not all(isinstance(name, str) for name in without):
        yield Diagnostic(f"{where}.without", "is not a list of names", "a list of option names")


def _sections(where: str, tables: Mapping[str, object]) -> Iterator[Diagnostic]:
    seen: dict[str, str] = {}
    for section in _SECTIONS:
        table = tables.get(section, {})
        if not isinstance(table, dict):
            yield Diagnostic(f"{where}.{section}", "is not a table", "option = value lines")
            continue
        for name, value in table.items():
            place = f"{where}.{section}.{name}"
            yield from _option(place, name, value)
            if (option := about(name)) in seen:
                yield Diagnostic(
                    place, f"sets the same option as {seen[option]}", "only one of the two"
                )
            seen[option] = f"{section}.{name}"


def _option(place: str, name: str, value: object) -> Iterator[Diagnostic]:
    if not _OPTION.fullmatch(name):
        yield Diagnostic(place, "is not an option name", "letters, digits and underscores")
    text = value if isinstance(value, str) else ""
    refused = (why for rules in rules_of_all() for why in _refusals(rules, name, text))
    if (first := next(refused, None)) is not None:
        yield Diagnostic(place, *first)
    if value is False:
        yield Diagnostic(place, "false is ambiguous", '"OFF", or skip_... = true for a bare flag')
    elif isinstance(value, dict):
        yield from _size_rule(place, value)
    elif not isinstance(value, str | int | float):
        yield Diagnostic(
            place, "has a value of the wrong type", "text, a number, or true for a flag"
        )


def _refusals(rules: Options, name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield why millrace refuses the option, and what is expected instead.

    An experiment may come from somebody else, so its options must not access files of the user.
    """
    forms = rules.forms(name)
    if rules.administrative.intersection(forms):
        yield "is set by millrace for each instance", "no such line"
    if needs_others(rules, forms):
        yield "is for clusters, and millrace runs single servers", "no such line"
    if rules.own_files.isdisjoint(forms) and rules.leads_away(name, value):
        expected = "a relative path inside the data directory, or no such line"
        yield "is a path outside of the server's own directories", expected
    if not value.isprintable():
        yield "has control characters", "printable text"
    if len(value) > _LONGEST_VALUE:
        yield f"has {len(value)} characters", f"at most {_LONGEST_VALUE} characters"


def needs_others(rules: Options, forms: Iterable[str]) -> bool:
    """Return whether the option, in any of its forms, works only in a cluster."""
    return any(fnmatchcase(form, each) for form in forms for each in rules.needs_others)


def check_varied_option(place: str, name: str, level: object) -> Iterator[Diagnostic]:
    """Yield the errors of a varied option at one of its levels.

    True and false switch the option on and off (``--NAME``, ``--skip-NAME``). The name must be that
    of the switch itself, since every server accepts both forms of it.
    """
    normal, switch = option_name(name), about(name)
    if normal != name:
        yield Diagnostic(place, f"{name!r} is another spelling of {normal!r}", f"options.{normal}")
    elif any(rules.is_loose(name) for rules in rules_of_all()):
        why = "a varied option does not need the prefix loose"
        yield Diagnostic(place, why, f"options.{switch}")
    elif isinstance(level, dict):
        yield Diagnostic(place, "has a value of the wrong type", "text, a number, true or false")
    elif isinstance(level, bool) and switch != name:
        expected = f"options.{switch}, true for on and false for off"
        yield Diagnostic(place, f"{name!r} is the negated form of the switch {switch!r}", expected)
    else:
        yield from _option(place, name, True if isinstance(level, bool) else level)


def rules_of_all() -> list[Options]:
    """Return the options of every family."""
    return [databases.get(family).options for family in FAMILIES]


def _size_rule(place: str, rule: Mapping[str, object]) -> Iterator[Diagnostic]:
    yield from _unknown(place, rule, _SIZE_KEYS)
    for key in ("published", "minimum"):
        try:
            parse_size(text if isinstance(text := rule.get(key), str) else "")
        except ValueError:
            yield Diagnostic(f"{place}.{key}", "is missing or not a size", 'a size such as "128M"')
    for key, upper in (("per_data_byte", 1e6), ("host_memory_share", 1.0)):
        if key == "host_memory_share" and key not in rule:
            continue
        number = rule.get(key)
        if isinstance(number, bool) or not isinstance(number, int | float):
            yield Diagnostic(f"{place}.{key}", "is missing or not a number", f"0 to {upper:g}")
        elif not 0 < number <= upper:
            yield Diagnostic(
                f"{place}.{key}", f"{number} is out of range", f"above 0, to {upper:g}"
            )


def _lineage(
    where: str, name: str, definitions: Mapping[str, Mapping[str, object]]
) -> Iterator[Diagnostic]:
    seen = [name]
    while isinstance(parent := definitions[seen[-1]].get("extends"), str):
        if parent not in definitions:
            if len(seen) == 1:
                yield Diagnostic(
                    f"{where}.extends",
                    f"unknown configuration {parent!r}",
                    f"one of {', '.join(sorted(definitions))}",
                    nearest(parent, definitions),
                )
            return
        if parent in seen:
            circle = " extends ".join((*seen, parent))
            yield Diagnostic(f"{where}.extends", f"extends itself: {circle}", "no cycle")
            return
        seen.append(parent)


def _unknown(
    where: str, table: Mapping[str, object], known: tuple[str, ...]
) -> Iterator[Diagnostic]:
    for key in table:
        if key not in known:
            near = nearest(key, known)
            yield Diagnostic(f"{where}.{key}", "unknown key", f"one of {', '.join(known)}", near)
