"""Generate a workload's data as a file that a server reads, for as long as trials need it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from millrace.loadgen import client as load
from millrace.servers.instances import processes
from millrace.servers.instances.signals import signals_held
from millrace.trial.resolved_workload import ResolvedWorkload


@contextlib.contextmanager
def data_file(workload: ResolvedWorkload, work_dir: Path) -> Iterator[Path]:
    """Provide the workload's data set as a file inside the block."""
    assert workload.checked.data is not None  # only such workloads read a file
    name = workload.checked.data.set
    # Recorded like an instance, so that a killed run does not leave gigabytes behind.
    data_id = processes.new_id("data")
    directory = work_dir / data_id
    account = processes.open_account(data_id, server="data", role="data", directories=[directory])
    try:
        directory.mkdir(parents=True)
        path = directory / f"{name}.tsv"
        load.write_data_file(path, name, workload.rows, int(workload.values["data_seed"]))
        path.chmod(0o644)
        yield path
    finally:
        with signals_held():
            processes.close_account(account)
