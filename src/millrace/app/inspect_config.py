"""Find a server's effective settings: start it on an empty data directory, query it, stop it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from millrace import databases
from millrace.app.experiments import validation_context
from millrace.errors import UserError, did_you_mean
from millrace.experiment.read import read_configurations
from millrace.experiment.toml_files import read_text
from millrace.model.servers import AttachedServer, FittedOptions, Server
from millrace.servers import configurations, options
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import lifecycle

_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 120.0
_STOP_LIMIT_S = 60.0

_OPTION_FILES = (".cnf", ".ini", ".conf")
_FORMS = "give the path of an option file (./my.cnf), or FILE.toml:NAME for an experiment's"


@dataclass(frozen=True)
class InspectedConfig:
    """The requested options and the effective settings of a server.

    ``fitted``: the requested options. ``effective``: the server's global variables.
    ``host_variables``: names and patterns of variables that differ on every start.
    """

    server: str
    configuration: str
    version_reported: str
    fitted: FittedOptions
    effective: Mapping[str, str]
    host_variables: tuple[str, ...]


@dataclass(frozen=True)
class FoundConfiguration:
    """The name of a configuration, and definitions that include it and its layers."""

    name: str
    definitions: Mapping[str, configurations.Definition]

    @property
    def notes(self) -> list[str]:
        """Return notes on the settings that were left out of option files, with the reasons."""
        layers = configurations.lineage(self.name, self.definitions)
        return [
            note
            for each in layers
            for note in configurations.notes_on(each, self.definitions[each])
        ]


def find_configuration(named: str) -> FoundConfiguration:
    """Return a configuration by its shipped name, ``FILE.toml:NAME``, or an option file's path.

    Raise UserError for an unknown name or an unreadable file, ValidationError for an invalid file.
    """
    shipped = configurations.load_builtin()
    file, colon, name = named.rpartition(":")
    if colon and file.endswith(".toml"):
        definitions = {**shipped, **read_configurations(Path(file), validation_context())}
        configurations.lineage(name, definitions)
        return FoundConfiguration(name, definitions)
    if "/" in named or named.endswith(_OPTION_FILES):
        path = Path(named)
        text = read_text(path, "option file", example=_FORMS)
        definition = configurations.definition_of_option_file(text, named)
        return FoundConfiguration(named, {**shipped, named: definition})
    if named not in shipped:
        raise UserError(
            f"unknown configuration {named!r}{did_you_mean(named, shipped)}",
            hint=f"use one of {', '.join(sorted(shipped))}; or {_FORMS}",
        )
    return FoundConfiguration(named, shipped)


def inspect_config(
    server: Server, configuration: FoundConfiguration, *, data_bytes: int
) -> InspectedConfig:
    """Start ``server`` with ``configuration``, read its effective settings, and stop it.

    Sizes scale with ``data_bytes`` and this host's memory. An attached server is only queried.
    Raise UserError for options that the server does not have, TrialFailed if it does not start.
    """
    wanted = configurations.resolve(
        configuration.name,
        family=server.family,
        version=None if isinstance(server, AttachedServer) else server.version,
        definitions=configuration.definitions,
        data_bytes=data_bytes,
        host_memory_bytes=psutil.virtual_memory().total,
    )
    fitted = options.fit(server, wanted)
    if isinstance(server, AttachedServer):
        attached = AttachedInstance(server)
        version, effective = attached.version(), attached.settings()
    else:
        with lifecycle.create(server, fitted) as instance:
            instance.initialise(_INITIALISE_LIMIT_S)
            instance.start(_START_LIMIT_S)
            version, effective = instance.version(), instance.settings()
            instance.stop(_STOP_LIMIT_S)
    family = databases.get(server.family)
    own = {form for each in fitted.applied for form in family.options.forms(each.name)}
    return InspectedConfig(
        server=server.name,
        configuration=configuration.name,
        version_reported=version,
        fitted=fitted,
        effective=family.stored_settings.of(effective, own),
        host_variables=family.host_variables,
    )
