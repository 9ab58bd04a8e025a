"""Find a server's effective settings: start it on an empty data directory, query it, stop it."""

from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from millrace import databases
from millrace.model.servers import AttachedServer, FittedOptions, Server
from millrace.servers import configurations, options
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import lifecycle

_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 120.0
_STOP_LIMIT_S = 60.0


@dataclass(frozen=True)
class InspectedConfig:
    """The requested options (``fitted``) and effective settings of a server.

    ``effective`` are its global variables, ``host_variables`` the names and patterns of those that
    differ on every start.
    """

    server: str
    configuration: str
    version_reported: str
    fitted: FittedOptions
    effective: Mapping[str, str]
    host_variables: tuple[str, ...]


def inspect_config(
    server: Server,
    configuration: str,
    *,
    data_bytes: int,
) -> InspectedConfig:
    """Inspect ``server`` under ``configuration``, its sizes scaled to ``data_bytes`` and this host.

    Raise UserError for options that the server does not know, TrialFailed when it does not start.
    """
    wanted = configurations.resolve(
        configuration,
        family=server.family,
        version=None if isinstance(server, AttachedServer) else server.version,
        definitions=configurations.load_builtin(),
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
        configuration=configuration,
        version_reported=version,
        fitted=fitted,
        effective=family.stored_settings.of(effective, own),
        host_variables=family.host_variables,
    )
