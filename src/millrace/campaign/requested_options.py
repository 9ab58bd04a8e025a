"""Derive the options that a treatment requests of its server."""

import psutil

from millrace.experiment.levels import OPTION
from millrace.experiment.model import Experiment, Treatment
from millrace.experiment.plan import chosen
from millrace.experiment.slowdown import OptionGiven, slowdown_of
from millrace.levels import Level
from millrace.model.servers import Configuration
from millrace.servers import configurations


def configuration_of(
    experiment: Experiment, treatment: Treatment, *, family: str, version: str | None
) -> Configuration:
    """Return the treatment's configuration, scaled to the data and its share of this host."""
    at_once = 2 if experiment.concurrent else 1
    resolved = configurations.resolve(
        str(treatment.resolved["configuration"]),
        family=family,
        version=version,
        definitions=experiment.configurations,
        data_bytes=experiment.checked_workload.data_bytes(chosen(experiment, treatment)),
        host_memory_bytes=psutil.virtual_memory().total // at_once,
    )
    return configurations.laid_over(resolved, varied_options(treatment))


def varied_options(treatment: Treatment) -> dict[str, Level]:
    """Return a treatment's levels of server options by name, including the one that slows down."""
    slowdown = slowdown_of(treatment.resolved)
    slowing = {slowdown.name: slowdown.value} if isinstance(slowdown, OptionGiven) else {}
    return {
        name.removeprefix(OPTION): level
        for name, level in treatment.resolved.items()
        if name.startswith(OPTION)
    } | slowing
