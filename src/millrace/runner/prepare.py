"""What must hold before the first trial: servers installed, options known, data and disk at hand.

Everything that can be refused is refused here, in one go, before anything is measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from millrace.errors import UserError
from millrace.experiment.model import Experiment, Plan, Treatment
from millrace.load import client as load
from millrace.runner import phases
from millrace.runner.run import Arm
from millrace.servers import configurations, options, processes
from millrace.servers.model import AttachedServer, Configuration, FittedOptions, Server
from millrace.servers.signals import signals_held


def arms(plan: Plan, servers: Mapping[str, Server]) -> dict[str, Arm]:
    """The server and the fitted options of each treatment, by treatment id.

    ``servers`` holds every server of the plan by name. Raises UserError for an option that a server
    does not know, and for a configuration that is asked of an attached server.
    """
    return {
        treatment.id: _arm(plan.experiment, treatment, servers) for treatment in plan.treatments
    }


def server_names(plan: Plan) -> list[str]:
    """The servers the plan runs on, each once, in the order of the experiment."""
    return list(dict.fromkeys(str(each.resolved["server"]) for each in plan.treatments))


def _arm(experiment: Experiment, treatment: Treatment, servers: Mapping[str, Server]) -> Arm:
    server = servers[str(treatment.resolved["server"])]
    wanted = configurations.resolve(
        str(treatment.resolved["configuration"]),
        family=server.family,
        definitions=experiment.configurations,
        data_bytes=data_bytes(experiment),
        host_memory_bytes=psutil.virtual_memory().total,
    )
    if isinstance(server, AttachedServer):
        if phases.reads_a_file(treatment.resolved):
            raise UserError(
                f"{server.name} is attached: it cannot read a file of this host",
                remedy="use load_mode 'local' for it",
            )
        return Arm(server, _nothing_to_apply(server, wanted))
    return Arm(server, options.fit(server, wanted))


def _nothing_to_apply(server: AttachedServer, wanted: Configuration) -> FittedOptions:
    if wanted.options:
        raise UserError(
            f"{server.name} is attached: millrace never reconfigures it, "
            f"so configuration {wanted.name!r} cannot be applied",
            remedy="use configuration 'default' for it, which leaves it as it is",
        )
    return FittedOptions(wanted.name, ())


def data_bytes(experiment: Experiment) -> int:
    """About how many bytes of data the workload loads at this scale."""
    return int(experiment.parameters["rows"]) * int(experiment.workload["data"]["row_bytes"])


def expected_data(experiment: Experiment) -> load.DataChecksum:
    """Rows, bytes and checksum of the data the trials load (computed once, then cached)."""
    return load.data_checksum(
        experiment.workload["data"]["set"],
        int(experiment.parameters["rows"]),
        int(experiment.parameters["data_seed"]),
    )


@contextlib.contextmanager
def data_file(plan: Plan, work_dir: Path) -> Iterator[phases.DataFile | None]:
    """The data as a file, while the run lasts, where a treatment has the server read it."""
    if not any(phases.reads_a_file(each.resolved) for each in plan.treatments):
        yield None
        return
    experiment = plan.experiment
    name = experiment.workload["data"]["set"]
    # Accounted for like an instance, so that a killed run does not leave gigabytes behind.
    data_id = processes.new_id("data")
    directory = work_dir / data_id
    account = processes.open_account(data_id, server="data", role="data", directories=[directory])
    try:
        directory.mkdir(parents=True)
        path = directory / f"{name}.tsv"
        load.write_data_file(
            path, name, int(experiment.parameters["rows"]), int(experiment.parameters["data_seed"])
        )
        path.chmod(0o644)
        yield phases.DataFile(path)
    finally:
        with signals_held():
            processes.close_account(account)
