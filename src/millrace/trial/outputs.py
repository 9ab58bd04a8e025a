"""Collect the outputs of a trial, which are kept when a later step fails."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millrace import databases
from millrace.errors import TrialFailed
from millrace.model.instance_facts import InstanceFacts
from millrace.model.roles import SERVER
from millrace.model.servers import Option, build_facts
from millrace.servers.instances import error_log
from millrace.servers.instances.instance import Instance
from millrace.store.records import (
    HistogramRecord,
    InstanceRecord,
    MeasurementRecord,
    NewArtefact,
    OptionRecord,
    ServerRecord,
)
from millrace.trial.spec import ServerSpec

_ENDING_S = 1.0


@dataclass
class TrialOutputs:
    """The outputs of a trial so far."""

    instances: dict[str, InstanceRecord] = field(default_factory=dict)  # by role
    managed: dict[str, Instance] = field(default_factory=dict)  # those that millrace runs
    measurements: list[MeasurementRecord] = field(default_factory=list)
    histograms: list[HistogramRecord] = field(default_factory=list)
    artefacts: list[NewArtefact] = field(default_factory=list)
    observations: dict[str, Mapping[str, object]] = field(default_factory=dict)

    def add_facts(self, role: str | None = None, **facts: object) -> None:
        """Add facts to the record of one or all servers. Raise TrialFailed for impossible ones."""
        for name in self.instances if role is None else (role,):
            record = self.instances[name]
            try:
                known = record.facts.replace(**facts)
            except ValueError as error:
                raise TrialFailed(f"the server's answers cannot be stored: {error}") from error
            self.instances[name] = replace(record, facts=known)

    def add_measurement(self, name: str, value: float, role: str = SERVER) -> None:
        """Add a measured value; the unit ends its name."""
        self.measurements.append(MeasurementRecord(name, value, role))

    def measured(self, name: str) -> float | None:
        """Return a measured value of any role; None where nothing measured it."""
        return next((each.value for each in self.measurements if each.name == name), None)

    def log_tail(self) -> str | None:
        """Return the end of the first server's error log that says anything."""
        tails = (instance.log_tail() for instance in self.managed.values())
        return next(filter(None, tails), None)

    def end_of_a_server(self) -> TrialFailed | None:
        """Return how a server that millrace runs has ended by itself; None where none has.

        A process that is killed closes its connections before it is gone: wait for it.
        """
        deadline = time.monotonic() + _ENDING_S
        while True:
            for instance in self.managed.values():
                if instance.ended is not None:
                    try:
                        instance.check_alive()
                    except TrialFailed as ended:
                        return ended
            if time.monotonic() > deadline:
                return None
            time.sleep(_ENDING_S / 10)

    def error_logs(self) -> list[NewArtefact]:
        """Return the error logs as artefacts."""
        logs = ((role, error_log.whole(each.error_log)) for role, each in self.managed.items())
        return [NewArtefact("error_log", role, log) for role, log in logs if log is not None]


def instance_record(
    spec: ServerSpec, version: str, effective: Mapping[str, str], facts: Mapping[str, object]
) -> InstanceRecord:
    """Return the record of a server, whose ``version`` and ``effective`` options it reports."""
    server, options = spec.server, spec.options
    family = databases.get(server.family)
    own = {form for each in options.applied for form in family.options.forms(each.name)}
    # An attached server reports its version as 10.11.19-MariaDB-0+deb12u1, and no build.
    known = getattr(server, "version", None) or version.split("-", 1)[0]
    return InstanceRecord(
        role=spec.role,
        server=ServerRecord(
            name=server.name,
            family=server.family,
            version=known,
            version_reported=version,
            build=build_facts(server),
            host_variables=tuple(sorted(family.host_variables)),
        ),
        configuration=options.configuration,
        options=(
            *map(_option_record, options.applied),
            *(_option_record(each.option, each.reason) for each in options.left_out),
        ),
        effective=family.stored_settings.of(effective, own),
        facts=InstanceFacts.model_validate({**facts, "load_average_1min": os.getloadavg()[0]}),
    )


def _option_record(option: Option, left_out: str | None = None) -> OptionRecord:
    return OptionRecord(option.name, option.value, option.layer, option.optional, left_out=left_out)
