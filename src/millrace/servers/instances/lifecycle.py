"""Manage an instance: a server with its own data directory, socket and port, until it is removed.

    with create(server, options) as instance:
        instance.initialise(limit_s=60)
        instance.start(limit_s=30)
        instance.query("SELECT 1")
        instance.stop(limit_s=30)

Leaving the context always ends the server and removes everything. See
millrace.servers.instances.ownership for the case that millrace itself is killed.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from millrace import databases, paths
from millrace.databases.base import Site
from millrace.model.roles import REPLICA
from millrace.model.servers import FittedOptions, InstalledServer
from millrace.servers.instances import instance_paths, ownership, users
from millrace.servers.instances.instance import ERROR_LOG, Instance
from millrace.servers.instances.signals import signals_held


@contextlib.contextmanager
def create(
    server: InstalledServer,
    options: FittedOptions,
    *,
    role: str = "server",
    work_dir: Path | None = None,
    port: int | None = None,
    socket: Path | None = None,
    by_tcp: bool = True,
) -> Iterator[Instance]:
    """Create an instance with an empty data directory.

    The instance is under ``work_dir``, or millrace's own work directory. The port and the socket
    are chosen unless given; a chosen port is reserved while the instance exists. The server listens
    on the port only if ``by_tcp``. Leaving the context ends the server and removes everything.
    Raise HostError if the directory cannot be created.
    """
    instance_id = ownership.new_id(server.name)
    directory = (work_dir or paths.work_dir()) / instance_id
    with contextlib.ExitStack() as undo:
        reserved = undo.enter_context(instance_paths.reserved_port()) if port is None else port
        name = databases.get(server.family).lifecycle.socket_name(reserved)
        chosen_socket = socket or instance_paths.own_socket(directory, instance_id, name)
        directories = [directory]
        if socket is None and not chosen_socket.is_relative_to(directory):
            directories.append(chosen_socket.parent.parent)
        run_dir = directories[-1] / instance_paths.RUN
        left_by_orphans = {each.uid for each in ownership.running() if each.uid is not None}
        uid = undo.enter_context(users.reserved(spared=left_by_orphans))
        record = ownership.register(
            instance_id, server=server.name, role=role, directories=directories, uid=uid
        )
        undo.callback(signals_held()(ownership.release), record)
        runs_as = instance_paths.make_directories(server, directories, run_dir, uid=uid)
        log = undo.enter_context(
            os.fdopen(instance_paths.new_file(directory, ERROR_LOG, 0o600), "ab", buffering=0)
        )
        site = Site(
            server=server,
            directory=directory,
            data_dir=directory / "data",
            tmp_dir=directory / "tmp",
            # A replica writes what it loads from its source to temporary files.
            load_dir=directory / ("tmp" if role == REPLICA else "load"),
            run_dir=run_dir,
            socket=chosen_socket,
            port=reserved,
            user_argument=runs_as.argument,
            password=secrets.token_hex(16),
            by_tcp=by_tcp,
            uid=runs_as.uid,
        )
        instance = Instance(site, options, runs_as=runs_as, record=record, log=log)
        undo.callback(instance.leave)
        yield instance
