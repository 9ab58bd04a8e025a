"""Provide a workload's data as a file that servers read, and keep it in the page cache."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from millrace.loadgen import datasets
from millrace.servers.instances import ownership
from millrace.servers.instances.signals import signals_held
from millrace.trial.resolved_workload import ResolvedWorkload


@contextlib.contextmanager
def generated_file(workload: ResolvedWorkload, work_dir: Path) -> Iterator[Path]:
    """Generate the workload's data set as a file that exists inside the block."""
    assert workload.checked.data is not None  # only such workloads read a file
    name = workload.checked.data.set
    # Recorded like an instance, so that a killed run does not leave gigabytes behind.
    data_id = ownership.new_id("data")
    directory = work_dir / data_id
    record = ownership.register(data_id, server="data", role="data", directories=[directory])
    try:
        directory.mkdir(parents=True)
        path = directory / f"{name}.tsv"
        datasets.write_data_file(path, name, workload.rows, int(workload.values["data_seed"]))
        path.chmod(0o644)
        yield path
    finally:
        with signals_held():
            ownership.release(record)


def linked_into(directory: Path, data_file: Path) -> Path:
    """Return the data file, linked if possible, in the only directory that a server may read."""
    place = directory / data_file.name
    try:
        os.link(data_file, place)
    except OSError:
        shutil.copyfile(data_file, place)  # another filesystem
        place.chmod(0o644)
    return place


def sync_and_cache(data_file: Path | None) -> None:
    """Write back dirty pages and cache a data file, so that every trial starts alike."""
    os.sync()
    if data_file is not None:
        with data_file.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass
