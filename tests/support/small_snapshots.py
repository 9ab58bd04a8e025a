"""Make snapshots of a server that never runs, and list the files of each."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from millrace import paths
from millrace.model.servers import FittedOptions, InstalledServer
from millrace.servers import snapshots
from millrace.servers.instances import lifecycle
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import Snapshot, SnapshotKey
from millrace.servers.snapshots.key import FORMAT, KeyParts

NOTHING = FittedOptions("default", ())


@contextlib.contextmanager
def loaded(
    small: InstalledServer, options: FittedOptions = NOTHING, content: bytes = b"rows"
) -> Iterator[Instance]:
    """Return an instance, with a data directory as if it had been loaded and stopped."""
    with lifecycle.create(small, options) as instance:
        data = instance.data_dir
        (data / "db").mkdir()
        (data / "db/t.ibd").write_bytes(content * 10_000)
        (data / "ibdata1").write_bytes(b"system")
        (data / "auto.cnf").write_text("server-uuid")
        (data / "ib_buffer_pool").write_text("1,2\n")
        status = data.stat()
        for path in data.rglob("*"):
            os.chown(path, status.st_uid, status.st_gid)
        yield instance


def key_of(small: InstalledServer, seed: int = 1, options: FittedOptions = NOTHING) -> SnapshotKey:
    return snapshots.key(small, options, {"seed": seed}, user="me")


def kept(small: InstalledServer, seed: int = 1, content: bytes = b"rows") -> Snapshot:
    with loaded(small, content=content) as instance:
        return snapshots.save(instance, key_of(small, seed), {"rows": 7}, made_s=1.5)


def parts(options: Sequence[tuple[str, str]] = (), **data: object) -> KeyParts:
    """Return the parts of a key, of a server that is not there."""
    server = {"name": "small", "family": "mysql", "version": "5.7.22"}
    return KeyParts.model_validate(
        {
            "format": FORMAT,
            "millrace": "0.1.0",
            "server": {**server, "program_sha256": "0", "artefacts": []},
            "user": "me",
            "options": list(map(list, options)),
            "data": data,
        }
    )


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def names() -> set[str]:
    root = paths.snapshots_dir()
    return {path.name for path in root.iterdir()} if root.is_dir() else set()
