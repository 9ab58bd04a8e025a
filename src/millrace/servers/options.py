"""List a server's options with its own program, and fit a configuration to them."""

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from millrace import atomic_file, databases, paths, safe_json
from millrace.databases.base import Options
from millrace.errors import PermanentHostError, UserError, nearest_names
from millrace.model.servers import (
    IN_ITS_PLACE,
    AttachedServer,
    Configuration,
    FittedOptions,
    InstalledServer,
    KnownOptions,
    LeftOut,
    Option,
    Server,
    option_name,
)
from millrace.quantities import exact_size, parse_size
from millrace.servers.instances import lifecycle
from millrace.servers.instances.instance import Instance
from millrace.servers.provenance import sha256

_HELP_LIMIT_S = 60.0
_INITIALISE_LIMIT_S = 120.0
_CACHE_FORMAT = 1
_LOG_PREFIX = re.compile(r"(?:\[[^\]]*\] )*(?:/\S+: )?")  # of a line: code, part and program


def known(server: InstalledServer) -> KnownOptions:
    """Return the options that a program lists, cached. Raise PermanentHostError, TrialFailed."""
    cache = paths.cache_dir() / "options" / f"{sha256(server.program)}.json"
    found = _read_cache(cache)
    if found is None:
        found = _ask(server, databases.get(server.family).options)
        _write_cache(cache, found)
    return found


def knows(rules: Options, options: KnownOptions, name: str) -> bool:
    """Return whether a server with these options accepts ``name``, in one of the family's forms.

    Prefixes of names, which some servers also accept, do not count: they may become ambiguous in
    another version.
    """
    return not options.names.isdisjoint(rules.forms(name))


def fit(server: Server, configuration: Configuration) -> FittedOptions:
    """Return the configuration with the options that apply to this server.

    Leave out optional options that the server does not know, and options that it ignores because of
    another option in the configuration. Raise UserError for all other unknown options, for options
    that millrace sets itself, and for any option of an attached server.
    """
    if isinstance(server, AttachedServer):
        if configuration.options:
            raise UserError(
                f"{server.name} is attached, so millrace cannot apply the configuration "
                f"{configuration.name!r} to it",
                hint="use a configuration without options, such as 'default'",
            )
        return FittedOptions(configuration.name, ())
    if not configuration.options:
        return FittedOptions(configuration.name, (), configuration.left_out)
    family = databases.get(server.family)
    _refuse_administrative(family.options, configuration)
    return fit_known(server.name, family.options, known(server), configuration)


def fit_known(
    server: str, rules: Options, options: KnownOptions, configuration: Configuration
) -> FittedOptions:
    """Fit a configuration to a server with known options; see ``fit``."""
    applied: list[Option] = []
    left_out = list(configuration.left_out)
    unknown: list[Option] = []
    replaced = _replaced(rules, options, configuration)
    for option in configuration.options:
        if knows(rules, options, option.name):
            applied.append(replace(option, name=option_name(option.name)))
        elif option in replaced:
            by = replaced[option]
            if by.name not in {each.name for each in applied}:
                applied.append(by)
            value = "" if by.value is None else f": {by.value}"
            reason = f"{server} has {by.name}{IN_ITS_PLACE}{value}"
            left_out.append(LeftOut(option, reason, replaced_by=by))
        elif option.optional or rules.is_loose(option.name):
            left_out.append(LeftOut(option, f"{server} has no option {option.name}"))
        else:
            unknown.append(option)
    if unknown:
        raise _unknown_options(server, rules, configuration.name, unknown, options)
    for pair in rules.replacements:
        losers = [option for option in applied if pair.loser in rules.forms(option.name)]
        if losers and any(pair.winner in rules.forms(option.name) for option in applied):
            reason = f"{server} ignores it because {pair.winner} is set"
            left_out += [LeftOut(option, reason) for option in losers]
            applied = [option for option in applied if option not in losers]
    return FittedOptions(configuration.name, tuple(applied), tuple(left_out))


def _replaced(
    rules: Options, options: KnownOptions, configuration: Configuration
) -> dict[Option, Option]:
    """Return the options that a server no longer has, with the options that replace them.

    If the configuration sets the newer option itself, that value stays. Options by which the newer
    option's value was multiplied are replaced too.
    """
    found: dict[Option, Option] = {}
    by_name = {rules.forms(each.name)[-1]: each for each in configuration.options}
    for rule in rules.successors:
        old = by_name.get(rule.option)
        if old is None or rule.by in by_name or knows(rules, options, old.name):
            continue
        if not knows(rules, options, rule.by):
            continue
        factor = by_name.get(rule.multiplied_by)
        with contextlib.suppress(ValueError):
            times = rule.times * parse_size((factor and factor.value) or str(rule.otherwise))
            name = option_name(old.name).replace(rule.option, rule.by)
            value = old.value if times == 1 or old.value is None else _times(old.value, times)
            found[old] = replace(old, name=name, value=value)
            if factor is not None and not knows(rules, options, factor.name):
                found[factor] = found[old]
    return found


def _times(value: str, times: int) -> str:
    product = parse_size(value) * times
    return str(product) if value.strip().isdigit() else exact_size(product)


def _refuse_administrative(rules: Options, configuration: Configuration) -> None:
    refused = [
        option
        for option in configuration.options
        if not rules.administrative.isdisjoint(rules.forms(option.name))
    ]
    if refused:
        listed = ", ".join(f"{option.name} (layer {option.layer!r})" for option in refused)
        raise UserError(
            f"configuration {configuration.name!r}: millrace sets these options itself: {listed}",
            hint="remove them from the configuration",
        )


def _unknown_options(
    server: str, rules: Options, configuration: str, unknown: list[Option], options: KnownOptions
) -> UserError:
    noun = "an option" if len(unknown) == 1 else f"{len(unknown)} options"
    lines = []
    for option in unknown:
        line = f"  {option.name} (layer {option.layer!r})"
        nearest = nearest_names(rules.forms(option.name)[-1], options.names)
        lines.append(line + (f"; nearest: {', '.join(nearest)}" if nearest else ""))
    return UserError(
        f"configuration {configuration!r} has {noun} that {server} does not know\n"
        + "\n".join(lines),
        hint="move them to the optional options of their layer, or remove them",
    )


def refuses(server: InstalledServer, name: str, value: str | None) -> bool:
    """Return whether the server knows the option but rejects the value."""
    if not knows(databases.get(server.family).options, known(server), name):
        return False
    tried = Option(name, value, optional=False, layer="asked")
    return _refusal(server, [tried]) is not None


def refused(server: InstalledServer, applied: Sequence[Option]) -> list[tuple[Option, str]]:
    """Return the options whose values the server rejects, each with the server's message.

    A configuration without rejected values is cached.
    """
    if not applied:
        return []
    named = json.dumps([(option.name, option.value) for option in applied])
    identity = hashlib.sha256(f"{sha256(server.program)} {named}".encode()).hexdigest()
    accepted = paths.cache_dir() / "options" / f"{identity}.accepted"
    if accepted.exists():
        return []
    found = []
    if _refusal(server, applied) is not None:
        needs = databases.get(server.family).options.needs
        each = ((option, _refusal(server, [option, *_needed(option, needs)])) for option in applied)
        found = [(option, words) for option, words in each if words is not None]
    if not found:
        with contextlib.suppress(OSError):
            atomic_file.write_text(accepted, f"{server.name} {named}\n")
    return found


def _needed(option: Option, needs: Mapping[str, Mapping[str, str]]) -> list[Option]:
    return [replace(option, name=name, value=of) for name, of in needs.get(option.name, {}).items()]


def _refusal(server: InstalledServer, tried: Sequence[Option]) -> str | None:
    """Return the server's last error message with these options; None if it accepts them."""
    rules = databases.get(server.family).options
    arguments = [*rules.arguments(tried), *rules.listing_arguments]
    with lifecycle.create(server, FittedOptions("default", ()), role="options") as instance:
        status, _ = instance.program_output(arguments, _HELP_LIMIT_S)
        if status != 0 and not _says_refused(instance):
            instance.initialise(_INITIALISE_LIMIT_S)
            status, _ = instance.program_output(arguments, _HELP_LIMIT_S)
        if status == 0 and not _says_refused(instance):
            return None
        lines = [line for line in instance.log_tail().splitlines() if "[ERROR]" in line]
        names = {option.name.replace("_", "-") for option in tried}
        about = [line for line in lines if any(name in line.replace("_", "-") for name in names)]
        last = (about or lines or instance.log_tail(1).splitlines() or [f"status {status}"])[-1]
        return _LOG_PREFIX.sub("", last.rpartition("[ERROR] ")[2]).strip()


def _says_refused(instance: Instance) -> bool:
    """Return whether the log reports a rejected value; for plugins the exit status is 0."""
    return instance.family.options.value_refused in instance.log_tail()


def _ask(server: InstalledServer, rules: Options) -> KnownOptions:
    """List the program's options, in an instance created for this."""
    arguments = list(rules.listing_arguments)
    with lifecycle.create(server, FittedOptions("default", ()), role="options") as instance:
        status, text = instance.program_output(arguments, _HELP_LIMIT_S)
        if status != 0 or not rules.parse_listing(text).defaults:  # 10.1.8 crashes without data
            instance.initialise(_INITIALISE_LIMIT_S)
            status, text = instance.program_output(arguments, _HELP_LIMIT_S)
        place, said = str(instance.directory), instance.log_tail(5)
    found = rules.parse_listing(text)
    if status != 0 or not found.defaults:
        raise PermanentHostError(
            f"{server.name} cannot list its options: {' '.join(arguments)} exited with {status}\n"
            f"{said}",
            hint=f"check the build with `millrace servers verify {server.name}`",
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
    """Cache the options; on a disk error, the server lists them again next time."""
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
