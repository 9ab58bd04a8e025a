"""Make a configuration from an option file, such as a my.cnf, that was written for another host.

Every option is optional: a server that does not know an option runs without it. Options that cannot
apply to an instance on this host are left out, with the reason: options that millrace sets, paths
of the other host, cluster options. For files that the server creates, such as logs, only the file
name is used.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from millrace import databases
from millrace.databases.base import FileOption, Options
from millrace.errors import ValidationError
from millrace.model.servers import option_name
from millrace.servers.configurations.check import FAMILIES, about, needs_others, rules_of_all

LEFT_OUT = "left_out"
"""The key of a definition for options that were left out: value and reason, by option."""

_SERIES = r"(\d{1,3})\.(\d{1,3})"
_PATH = re.compile(r"/|\\\\|[A-Za-z]:[\\/]")
_REFERENCE = "docs/experiment-file.md describes option files"
_LONGEST_VALUE = 500

_OURS = "millrace sets this for each instance"
_ELSEWHERE = "a path of the host that the file was written for"
_SHOWN = (_OURS, _ELSEWHERE)
_FORMULA = re.compile(r"[{}]|\b(?:GREATEST|LEAST|SUM)\(")

_Section = tuple[str | None, str | None]
"""A family (None: all), and a series such as 8.0 (None: all)."""


@dataclass
class _Draft:
    """The options that apply, by section; a later line replaces earlier ones in all sections."""

    sections: dict[_Section, dict[str, str | bool]] = field(default_factory=dict)
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)

    def put(self, section: _Section, name: str, value: str | bool) -> None:
        for other, options in self.sections.items():
            if _covers(section, other):
                for written in [each for each in options if about(each) == about(name)]:
                    del options[written]
        self.sections.setdefault(section, {})[name] = value


def definition_of_option_file(text: str, source: str) -> dict[str, Any]:
    """Return the configuration's definition from the text of an option file.

    ``source`` names the file. Raise ValidationError with every line that cannot be parsed.
    """
    read = {family: databases.get(family).options.parse_file(text) for family in FAMILIES}
    draft = _Draft()
    includes: dict[int, str] = {}
    for found in read.values():
        if found.mistakes:
            raise ValidationError(source, found.mistakes, hint=_REFERENCE)
        includes |= found.includes
    groups: dict[FileOption, list[_Section]] = {}
    for family, found in read.items():
        for option in found.options:
            for section in _sections_of(databases.get(family).options, family, option.group):
                groups.setdefault(option, []).append(section)
    for option in sorted(groups, key=lambda each: each.line):
        _put(draft, option, _joined(groups[option]))
    _add_needs(draft)
    for line, include in includes.items():
        draft.left_out[include] = {
            "value": "",
            "why": f"line {line} includes other files, which millrace does not read; copy their "
            "options into this file",
        }
    return {"title": source, **_tables(draft), LEFT_OUT: draft.left_out}


def left_out_of(definition: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the options that an option file's definition left out; None if there are none."""
    found: Mapping[str, Any] | None = definition.get(LEFT_OUT)
    return found


def notes_on(name: str, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield one note per reason for which options of an option file were left out."""
    reasons: dict[str, list[str]] = {}
    for option, left in definition.get(LEFT_OUT, {}).items():
        reasons.setdefault(left["why"], []).append(option)
    for why, options in reasons.items():
        yield f"configuration {name}: left out {', '.join(options)}: {why}"


def line_of(name: str, value: str | None, text: str, family: str) -> int | None:
    """Return the line number where an option file sets an option for a family; None if absent."""
    rules = databases.get(family).options
    lines = [
        option.line
        for option in rules.parse_file(text).options
        if about(option_name(option.name)) == about(name)
        and local_value(name, option.value) == value
        and any(_sections_of(rules, family, option.group))
    ]
    return max(lines, default=None)


def local_value(name: str, value: str | None) -> str | None:
    """Return an option's value, reduced to the file name if the server creates that file.

    Return None (a bare flag) if the value is only a directory.
    """
    if value is None or all(r.own_files.isdisjoint(r.forms(name)) for r in rules_of_all()):
        return value
    return re.split(r"[\\/]", value)[-1] or None


def _sections_of(rules: Options, family: str, group: str) -> Iterator[_Section]:
    for pattern in rules.file_groups:
        before, series, _ = pattern.partition("{series}")
        if not series and group == pattern:
            yield family, None
        elif series and (found := re.fullmatch(re.escape(before) + _SERIES, group)):
            yield family, f"{found[1]}.{found[2]}"


def _joined(sections: list[_Section]) -> list[_Section]:
    """Return one section for all families if each of them reads the group."""
    families = {family for family, _ in sections}
    series = sections[0][1]
    return [(None, None)] if series is None and families == set(FAMILIES) else sections


def _put(draft: _Draft, option: FileOption, sections: list[_Section]) -> None:
    name = option_name(option.name)
    why = _why_left_out(name, option.value)
    if why is not None:
        # Only values that are paths or addresses are kept; others may be secrets.
        shown = (option.value or "")[:_LONGEST_VALUE] if why in _SHOWN else ""
        draft.left_out[name] = {"value": shown, "why": why}
        return
    draft.left_out.pop(name, None)
    value = local_value(name, option.value)
    for section in sections:
        draft.put(section, name, True if value is None else value)


def _add_needs(draft: _Draft) -> None:
    """Add the options that a server needs to start with the options of the file."""
    for rules in rules_of_all():
        given = {about(name) for options in draft.sections.values() for name in options}
        for option, needed in rules.needs.items():
            for name in needed if option in given else ():
                if name not in given:
                    draft.put((None, None), name, needed[name])


def _why_left_out(name: str, value: str | None) -> str | None:
    """Return why an option cannot apply to an instance on this host; None if it can."""
    reasons = (
        why for rules in rules_of_all() for why in _reasons(rules, rules.forms(name), value or "")
    )
    return next(reasons, None)


def _reasons(rules: Options, forms: tuple[str, ...], value: str) -> Iterator[str]:
    if any(fnmatchcase(form, each) for form in forms for each in rules.secrets):
        yield "its value may be a secret, which a run would store"
    if rules.administrative.intersection(forms):
        yield _OURS
    if needs_others(rules, forms):
        yield "it needs a cluster, and millrace runs one server"
    if rules.read_only.intersection(forms):
        yield "it makes the server read-only, so no table could be loaded"
    if len(value) > _LONGEST_VALUE:
        yield f"its value is longer than {_LONGEST_VALUE} characters"
    if not value.isprintable():
        yield "its value has control characters"
    is_elsewhere = _PATH.match(value) or rules.leads_away(forms[0], value)
    if is_elsewhere and not rules.own_files.intersection(forms):
        yield _ELSEWHERE
    if _FORMULA.search(value):
        yield "its value is a formula of a cloud provider's parameter group"


def _covers(section: _Section, other: _Section) -> bool:
    """Return whether a line of ``section`` applies wherever a line of ``other`` does."""
    return all(mine is None or mine == its for mine, its in zip(section, other, strict=True))


def _tables(draft: _Draft) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    whens = []
    for (family, series), options in draft.sections.items():
        if not options:
            continue
        if series is not None:
            major, minor = series.split(".")
            whens.append(
                {
                    "family": family,
                    "from": series,
                    "below": f"{major}.{int(minor) + 1}",
                    "why": f"a group of the option file for {series}",
                    "optional": options,
                }
            )
        elif family is None:
            tables["optional"] = options
        else:
            tables[family] = {"optional": options}
    return {**tables, "when": whens} if whens else tables
