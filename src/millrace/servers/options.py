"""What options a server has, asked from the server itself, and a configuration fitted to them."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from pathlib import Path

from millrace import atomic_file, databases, paths, safe_json
from millrace.databases.base import Family
from millrace.databases.mysql import option_names
from millrace.errors import PermanentHostError, UserError, nearest_names
from millrace.model.servers import (
    AttachedServer,
    Configuration,
    FittedOptions,
    InstalledServer,
    KnownOptions,
    LeftOut,
    Option,
    Server,
)
from millrace.servers.instances import lifecycle
from millrace.servers.instances.lifecycle import Instance
from millrace.servers.provenance import sha256

_HELP_LIMIT_S = 60.0
_INITIALISE_LIMIT_S = 120.0
_REFUSED = "Error while setting value"
_CACHE_FORMAT = 1

_DESCRIBED_OPTION = re.compile(r"^  (?:-\S, )?--([A-Za-z][\w-]*)", re.M)
_TABLE_RULE = re.compile(r"^-{20,} -+$", re.M)
_TABLE_ROW = re.compile(r"([A-Za-z][\w-]*)(?:\s+(\S.*))?")


def known(server: InstalledServer) -> KnownOptions:
    """The options the server program itself lists, kept by the program's SHA-256.

    Raises PermanentHostError when it does not list them, TrialFailed when it needs a data directory
    for that and cannot make one.
    """
    cache = paths.cache_dir() / "options" / f"{sha256(server.program)}.json"
    found = _read_cache(cache)
    if found is None:
        found = _ask(server)
        _write_cache(cache, found)
    return found


def parse_help(text: str) -> KnownOptions:
    """The options in the output of ``--verbose --help``: each is described, and those with a value
    are listed again in a table with their defaults."""
    described, table = text, ""
    if (rule := _TABLE_RULE.search(text)) is not None:
        described, table = text[: rule.start()], text[rule.end() :].lstrip("\n")
    names = {option_names.normal(name) for name in _DESCRIBED_OPTION.findall(described)}
    defaults = {}
    for line in table.splitlines():
        row = _TABLE_ROW.fullmatch(line.rstrip())
        if row is None:
            break
        names.add(option_names.normal(row[1]))
        if row[2] != "(No default value)":
            defaults[option_names.normal(row[1])] = row[2] or ""
    return KnownOptions(frozenset(names), defaults)


def knows(options: KnownOptions, name: str) -> bool:
    """Whether a server with these options accepts ``name``: exactly, or behind one of the prefixes
    that every server understands (skip, disable, enable, maximum, loose). Beginnings of names,
    which servers also accept, are not: they may become ambiguous in another version."""
    return not options.names.isdisjoint(option_names.forms(name))


def fit(server: Server, configuration: Configuration) -> FittedOptions:
    """The configuration as this server can have it.

    Optional options the server does not know are left out, and so is one that another option of
    the configuration makes it ignore. Raises UserError for all others it does not know, for options
    that belong to millrace, and for any option of a server that is not ours to configure.
    """
    if isinstance(server, AttachedServer):
        if configuration.options:
            raise UserError(
                f"{server.name} is attached: millrace never reconfigures it, so it cannot have the "
                f"configuration {configuration.name!r}",
                hint="use a configuration without options, such as 'default'",
            )
        return FittedOptions(configuration.name, ())
    if not configuration.options:
        return FittedOptions(configuration.name, (), configuration.left_out)
    family = databases.get(server.family)
    _refuse_administrative(family, configuration)
    return fit_known(server.name, family, known(server), configuration)


def fit_known(
    server: str, family: Family, options: KnownOptions, configuration: Configuration
) -> FittedOptions:
    """``fit`` for a server whose options are at hand."""
    applied: list[Option] = []
    left_out = list(configuration.left_out)
    unknown: list[Option] = []
    for option in configuration.options:
        if knows(options, option.name):
            applied.append(replace(option, name=option_names.normal(option.name)))
        elif option.optional or option_names.is_loose(option.name):
            left_out.append(LeftOut(option, f"{server} has no option {option.name}"))
        else:
            unknown.append(option)
    if unknown:
        raise _unknown_options(server, configuration.name, unknown, options)
    for pair in family.replacements:
        losers = [option for option in applied if _is_about(option, pair.loser)]
        if losers and any(_is_about(option, pair.winner) for option in applied):
            reason = f"{pair.winner} makes {server} ignore it"
            left_out += [LeftOut(option, reason) for option in losers]
            applied = [option for option in applied if option not in losers]
    return FittedOptions(configuration.name, tuple(applied), tuple(left_out))


def _is_about(option: Option, name: str) -> bool:
    return name in option_names.forms(option.name)


def _refuse_administrative(family: Family, configuration: Configuration) -> None:
    refused = [
        option
        for option in configuration.options
        if not family.administrative_options.isdisjoint(option_names.forms(option.name))
    ]
    if refused:
        listed = ", ".join(f"{option.name} (layer {option.layer!r})" for option in refused)
        raise UserError(
            f"configuration {configuration.name!r}: millrace sets these options itself: {listed}",
            hint="remove them from the configuration",
        )


def _unknown_options(
    server: str, configuration: str, unknown: list[Option], options: KnownOptions
) -> UserError:
    noun = "an option" if len(unknown) == 1 else f"{len(unknown)} options"
    lines = []
    for option in unknown:
        line = f"  {option.name} (layer {option.layer!r})"
        nearest = nearest_names(option_names.forms(option.name)[-1], options.names)
        lines.append(line + (f"; nearest: {', '.join(nearest)}" if nearest else ""))
    return UserError(
        f"configuration {configuration!r} has {noun} that {server} does not know\n"
        + "\n".join(lines),
        hint="mark them optional in their layer to leave them out where a server lacks them, "
        "or remove them",
    )


def refuses(server: InstalledServer, name: str, value: str | None) -> bool:
    """Whether the server knows an option and does not take the value, None for a bare flag: it is
    had to print its options with it."""
    if not knows(known(server), name):
        return False
    wanted = FittedOptions("asked", (Option(name, value, optional=False, layer="asked"),))
    arguments = [*wanted.arguments(), "--verbose", "--help"]
    with lifecycle.create(server, FittedOptions("default", ()), role="options") as instance:
        status, _ = instance.print_of_program(arguments, _HELP_LIMIT_S)
        if status != 0 and not _says_refused(instance):
            instance.initialise(_INITIALISE_LIMIT_S)
            status, _ = instance.print_of_program(arguments, _HELP_LIMIT_S)
        return status != 0 or _says_refused(instance)


def _says_refused(instance: Instance) -> bool:
    """Plugins, as InnoDB in MySQL 8, refuse their values, and the program ends without error."""
    return _REFUSED in instance.log_tail()


def _ask(server: InstalledServer) -> KnownOptions:
    """Ask the program, in an instance made for that.

    Some versions (mysqld 10.1.8) crash when there is no initialised data directory.
    """
    arguments = ["--verbose", "--help"]
    with lifecycle.create(server, FittedOptions("default", ()), role="options") as instance:
        status, text = instance.print_of_program(arguments, _HELP_LIMIT_S)
        if status != 0 or not parse_help(text).defaults:
            instance.initialise(_INITIALISE_LIMIT_S)
            status, text = instance.print_of_program(arguments, _HELP_LIMIT_S)
        place, said = str(instance.directory), instance.log_tail(5)
    found = parse_help(text)
    if status != 0 or not found.defaults:
        raise PermanentHostError(
            f"{server.name} does not list its options: --verbose --help ended with {status}\n"
            f"{said}",
            hint=f"check the build with: millrace servers verify {server.name}",
        )
    lasting = {name: value for name, value in found.defaults.items() if place not in value}
    return KnownOptions(found.names, lasting)


def _read_cache(file: Path) -> KnownOptions | None:
    try:
        data = safe_json.read(file)
        if data["format"] == _CACHE_FORMAT:
            return KnownOptions(frozenset(data["names"]), dict(data["defaults"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _write_cache(file: Path, options: KnownOptions) -> None:
    """Keep the answer; where that is impossible the server is asked again next time."""
    text = json.dumps(
        {
            "format": _CACHE_FORMAT,
            "names": sorted(options.names),
            "defaults": dict(sorted(options.defaults.items())),
        },
        indent=1,
    )
    with contextlib.suppress(OSError):
        atomic_file.write_text(file, text)
