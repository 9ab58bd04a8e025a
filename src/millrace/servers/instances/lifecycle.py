"""Instances: a server of ours with its own data directory, socket and port, from nothing to gone.

    with create(server, options) as instance:
        instance.initialise(limit_s=60)
        instance.start(limit_s=30)
        instance.query("SELECT 1")
        instance.stop(limit_s=30)

Leaving the context ends the server and removes everything, whatever happened; see
millrace.servers.instances.processes for what happens when millrace itself is killed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket as sockets
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from millrace import databases, paths
from millrace.databases.base import Initialisation, Site
from millrace.databases.client import Address, ServerClient, Session
from millrace.errors import DatabaseError, TrialFailed
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers.instances import error_log, instance_paths, launch, processes, users
from millrace.servers.instances.signals import signals_held
from millrace.servers.snapshots import PageCache, Restored, Template, create_restore
from millrace.servers.snapshots.copying import Owner
from millrace.shown_text import shown_line
from millrace.tls import Tls

_END_LIMIT_S = 15.0
_POLL_S = 0.02
_ERROR_LOG = "error.log"
_OUTPUT_LIMIT_BYTES = 16 << 20


class Instance(ServerClient):
    """A server of ours; made by ``create``.

    ``load_dir`` is the directory that secure_file_priv names: a file there must be readable by all
    for LOAD DATA INFILE to take it; the server cannot write there. ``pid`` is None while no server
    runs.

    The server's user is not trusted. It owns ``data_dir`` and two other directories, all else is
    millrace's; and while millrace works inside of what it owns, no process of it runs.
    """

    is_managed = True

    def __init__(
        self,
        site: Site,
        options: FittedOptions,
        *,
        role: str,
        runs_as: launch.RunsAs,
        account: processes.Account,
        log: IO[bytes],
    ) -> None:
        family = databases.get(site.server.family)
        super().__init__(
            site.server,
            family,
            Address(
                server=site.server.name,
                user=family.account,
                password=site.password,
                port=site.port,
                socket=site.socket,
                # The kernel confirms that the process which listens is the one that was started.
                tls=Tls(allow_unverified=True),
            ),
        )
        self.id = account.id
        self.role = role
        self.options = options
        self.directory = site.directory
        self.data_dir = site.data_dir
        self.load_dir = site.load_dir
        self.error_log = site.directory / _ERROR_LOG
        self.pid_file = family.lifecycle.pid_file(site)
        self.socket = site.socket
        self.user = self._address.user
        self.password = site.password
        self.runs_as = runs_as.name
        self._site = site
        self._runs_as = runs_as
        self._account = account
        self._log = log
        self._socket_descriptor: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._phase_began_at = 0
        self._trouble_seen_to = 0

    @property
    def server(self) -> InstalledServer:
        """The build that runs."""
        return self._site.server

    @property
    def pid(self) -> int | None:
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    @property
    def client_socket(self) -> Path:
        """The socket for clients: the one that the server took when it started, wherever its name
        leads to by now."""
        return self._address.socket or self.socket

    def initialise(self, limit_s: float) -> None:
        """Make the data directory, with root@localhost and root@127.0.0.1 as its only accounts.

        Raises TrialFailed, with the server's own words, when that fails or takes too long.
        """
        todo = self.family.lifecycle.initialisation(self._site, self.shaping_options())
        for name in todo.directories:
            self._make_in_data_dir(name)
        with self._init_file(todo) as arguments:
            process = self._spawn(arguments, stdin=subprocess.PIPE)
            try:
                process.communicate(todo.stdin, timeout=limit_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise self._failure("initialise", f"not finished after {limit_s:g} s") from None
        self._end_what_is_left()
        if process.returncode != 0:
            raise self._failure("initialise", _ending(process.returncode))
        self._process = None

    def shaping_options(self) -> tuple[Option, ...]:
        """Return the options that decide what ``initialise`` writes."""
        rules = self.family.options
        return tuple(
            option
            for option in self.options.applied
            if not rules.shaping.isdisjoint(rules.forms(option.name))
        )

    def restore(self, template: Template, *, page_cache: PageCache = "cold") -> Restored:
        """Fill the empty data directory from a template, instead of ``initialise``.

        The accounts and the password are the template's from then on. ``page_cache`` says whether
        the files are out of the page cache then, or in it. Raises templates.Unusable when the
        template is no good any more: then the directory is empty, and can be initialised.
        """
        owner = Owner(self._runs_as.uid, self._runs_as.gid)
        restored = create_restore.restore_into(template, self.data_dir, owner, page_cache)
        self.password = template.password
        self._site = replace(self._site, password=template.password)
        self._address = replace(self._address, password=template.password)
        return restored

    def start(self, limit_s: float) -> None:
        """Start the server and return when it lets us log in.

        Raises TrialFailed at once when the process ends or its log says that it cannot go on, and
        after ``limit_s`` when it does neither.
        """
        self._refuse_foreign_socket()
        self._spawn(
            [
                *self.family.lifecycle.start_arguments(self._site),
                *self.family.options.arguments(self.options.applied),
            ]
        )
        self._trouble_seen_to = self._phase_began_at
        deadline = time.monotonic() + limit_s
        while not self._answers():
            self.check_alive(step="start")
            if (line := self._new_trouble()) is not None:
                self.kill()
                raise self._failure(
                    "start", "it cannot go on", said=error_log.words(line, self.family.log)
                )
            if time.monotonic() > deadline:
                self.kill()
                raise self._failure("start", f"not ready after {limit_s:g} s")
            time.sleep(_POLL_S)
        self._refuse_foreign_answer()

    def log_tail(self, n_lines: int = 40) -> str:
        """The last lines of the error log."""
        return error_log.tail(self.error_log, n_lines)

    def trouble(self) -> str | None:
        """What the error log says, new since the last call, of why the server cannot go on or waits
        for disk space, and what that means; None if there is none. Cheap enough to be asked every
        second."""
        line = self._new_trouble()
        if line is None:
            return None
        log = self.family.log
        meaning = error_log.reason_of(line, log, port=self.port, socket=self.socket)
        said = error_log.words(line, log)
        return f"{meaning}; the log says: {said}" if meaning else said

    def check_alive(self, *, step: str | None = None) -> None:
        """Raises TrialFailed, with how it ended and the end of its log, if the server is gone."""
        if self._process is None:
            raise TrialFailed(f"{self.server.name} is not running", step=step)
        status = self._process.poll()
        if status is not None:
            raise self._failure(step, _ending(status))

    def stop(self, limit_s: float) -> None:
        """Ask the server to end cleanly, and wait for it.

        Afterwards it is gone in any case. Raises TrialFailed when it crashed, or had to be killed
        after ``limit_s``.
        """
        self.check_alive(step="stop")
        self._phase_began_at = error_log.size(self.error_log)
        by = self.family.lifecycle.stop_signal
        if not self._end(by, limit_s):
            self.kill()
            raise self._failure("stop", f"not gone {limit_s:g} s after {by.name}, so it was killed")
        self._end_what_is_left()
        status = self._process.returncode if self._process is not None else 0
        self._process = None
        if status != 0:
            raise self._failure("stop", _ending(status))

    def kill(self) -> None:
        """End the server with SIGKILL, if it runs."""
        if self._runs_as.uid is not None:
            # With whoever traces it: the kernel shows its end to a tracer first.
            users.kill_all(self._runs_as.uid)
        self._end(signal.SIGKILL, _END_LIMIT_S)
        self._end_what_is_left()

    def print_of_program(self, arguments: list[str], limit_s: float) -> tuple[int, str]:
        """Run the server program for what it prints (``--verbose --help``), beside our files.

        Returns its exit status and its standard output; its errors are in the error log.
        """
        with tempfile.TemporaryFile(dir=self.directory) as file:
            process = self._spawn(
                [*self.family.lifecycle.program_arguments(self._site), *arguments], output=file
            )
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.kill()
            self._end_what_is_left()
            self._process = None
            file.seek(0)
            text = file.read(_OUTPUT_LIMIT_BYTES).decode("utf-8", errors="replace")
            return process.returncode, text

    def _spawn(
        self,
        arguments: list[str],
        *,
        output: IO[bytes] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        self._phase_began_at = error_log.size(self.error_log)
        with signals_held():
            self._process = launch.spawn(
                self.server,
                arguments,
                instance_id=self.id,
                directory=self.directory,
                writable=sorted({self.directory, self._site.run_dir.parent}),
                runs_as=self._runs_as,
                log=self._log,
                output=output,
                stdin=stdin,
            )
            identity = processes.ProcessId.of(self._process.pid)
            if identity is not None:
                self._account = processes.record_process(self._account, identity)
        return self._process

    def _end(self, with_signal: signal.Signals, limit_s: float) -> bool:
        """Send a signal to our process; whether it has ended within the limit."""
        process = self._process
        if process is None:
            return True
        # Our own child cannot be confused with another process: its number is ours until waited.
        process.send_signal(with_signal)
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    @contextlib.contextmanager
    def _init_file(self, todo: Initialisation) -> Iterator[list[str]]:
        """The arguments of an initialisation; its init file exists only inside."""
        if todo.init_file is None:
            yield list(todo.arguments)
            return
        file = self.directory / "init.sql"
        with os.fdopen(instance_paths.new_file(self.directory, file.name, 0o600), "wb") as writer:
            if self._runs_as.gid is not None:
                os.fchown(writer.fileno(), -1, self._runs_as.gid)
                os.fchmod(writer.fileno(), 0o640)
            writer.write(todo.init_file)
        try:
            yield [argument.replace("{init_file}", str(file)) for argument in todo.arguments]
        finally:
            file.unlink()

    def _make_in_data_dir(self, name: str) -> None:
        """Make a directory for the server's user, who may have left anything under that name."""
        (self.data_dir / name).mkdir()
        descriptor = instance_paths.open_given_away(
            self.data_dir / name, os.O_RDONLY | os.O_DIRECTORY
        )
        try:
            if self._runs_as.uid is not None and self._runs_as.gid is not None:
                os.fchown(descriptor, self._runs_as.uid, self._runs_as.gid)
        finally:
            os.close(descriptor)

    def _answers(self) -> bool:
        """Whether the server lets us log in now."""
        self._let_go_of_socket()
        self._socket_descriptor = instance_paths.open_socket(self.socket, self._runs_as.uid)
        if self._socket_descriptor is None:
            return False
        ours = Path(f"/proc/{os.getpid()}/fd/{self._socket_descriptor}")
        self._address = replace(self._address, socket=ours)
        try:
            with contextlib.closing(self.connect()) as session:
                self._refuse_foreign_process(session)
                return True
        except DatabaseError as error:
            if error.kind == "unreachable":
                return False
            self.check_alive(step="start")
            self.kill()
            raise self._failure("start", f"it does not let us log in: {error.message}") from error

    def _let_go_of_socket(self) -> None:
        if self._socket_descriptor is not None:
            os.close(self._socket_descriptor)
            self._socket_descriptor = None
            self._address = replace(self._address, socket=self.socket)

    def _refuse_foreign_process(self, session: Session) -> None:
        """Whoever listens on our socket must be the process that we started."""
        pid = session.peer_pid
        if self._process is not None and pid != self._process.pid:
            self.kill()
            raise TrialFailed(
                f"{self.server.name}: another process, {pid}, answers on the socket {self.socket}",
                step="start",
            )

    def _refuse_foreign_socket(self) -> None:
        """Old servers take a socket away from whoever listens on it, so look first."""
        descriptor = instance_paths.open_socket(self.socket, None)
        if descriptor is None:
            return
        with sockets.socket(sockets.AF_UNIX) as probe:
            try:
                probe.connect(f"/proc/self/fd/{descriptor}")
            except OSError:
                return
            finally:
                os.close(descriptor)
        raise TrialFailed(
            f"{self.server.name}: the socket {self.socket} is taken by another process",
            hint="end that process, or use another socket",
            step="start",
        )

    def _refuse_foreign_answer(self) -> None:
        """Whoever answers on our socket must have our data directory."""
        answered = self.family.administration.data_directory(self)
        # Resolved as a text: pathlib raises for a link that leads to itself.
        if "\0" in answered or os.path.realpath(answered) != os.path.realpath(self.data_dir):
            self.kill()
            raise TrialFailed(
                f"{self.server.name}: another server, with the data directory "
                f"{shown_line(answered)}, answers on the socket {self.socket}",
                step="start",
            )

    def _new_trouble(self) -> str | None:
        line, self._trouble_seen_to = error_log.trouble(
            self.error_log, self._trouble_seen_to, self.family.log
        )
        return line

    def _failure(self, step: str | None, what: str, *, said: str | None = None) -> TrialFailed:
        """The error of this phase: what we saw, what that means, and the server's own words.

        Where it is not known what that means, ``said`` or the first error of the log is in the
        first line, which is all that a report's sentence shows.
        """
        log = self.family.log
        meaning = error_log.reason(
            self.error_log, self._phase_began_at, log, port=self.port, socket=self.socket
        )
        doing = {"initialise": " (initialising)", "start": " (starting)", "stop": " (stopping)"}
        message = f"{self.server.name}{doing.get(step or '', '')}: "
        said = said or error_log.first_error(self.error_log, self._phase_began_at, log)
        if meaning:
            message += f"{meaning}; {what}"
        else:
            message += f"{what}; the log says: {said}" if said else what
        quoted = error_log.errors(self.error_log, self._phase_began_at, log)
        if quoted:
            message += "\n" + "\n".join(f"  {line}" for line in quoted)
        return TrialFailed(message, step=step, log_tail=self.log_tail())

    def _end_what_is_left(self) -> None:
        """End what the server's process left behind, before we work inside of what it owns."""
        if self._runs_as.uid is not None:
            processes.end_all_of(self._runs_as.uid)

    def _leave(self) -> None:
        """End the server, politely if it listens; how it ends does not matter any more."""
        with signals_held():
            self._let_go_of_socket()
            if not self._end(self.family.lifecycle.stop_signal, _END_LIMIT_S):
                self.kill()
            self._end_what_is_left()


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
    """An instance with an empty data directory under ``work_dir`` (or millrace's own).

    Port and socket are chosen unless given; a port that was chosen stays reserved while the
    instance exists. Only where ``by_tcp`` does the server listen there. Leaving the context ends
    the server and removes everything. Raises HostError when the directory cannot be made.
    """
    instance_id = processes.new_id(server.name)
    directory = (work_dir or paths.work_dir()) / instance_id
    with contextlib.ExitStack() as undo:
        reserved = undo.enter_context(instance_paths.reserved_port()) if port is None else port
        name = databases.get(server.family).lifecycle.socket_name(reserved)
        chosen_socket = socket or instance_paths.own_socket(directory, instance_id, name)
        directories = [directory]
        if socket is None and not chosen_socket.is_relative_to(directory):
            directories.append(chosen_socket.parent.parent)
        run_dir = directories[-1] / instance_paths.RUN
        left_by_orphans = {each.uid for each in processes.running() if each.uid is not None}
        uid = undo.enter_context(users.reserved(spared=left_by_orphans))
        account = processes.open_account(
            instance_id, server=server.name, role=role, directories=directories, uid=uid
        )
        undo.callback(_remove, account)
        runs_as = instance_paths.make_directories(server, directories, run_dir, uid=uid)
        log = undo.enter_context(
            os.fdopen(instance_paths.new_file(directory, _ERROR_LOG, 0o600), "ab", buffering=0)
        )
        site = Site(
            server=server,
            directory=directory,
            data_dir=directory / "data",
            tmp_dir=directory / "tmp",
            load_dir=directory / "load",
            run_dir=run_dir,
            socket=chosen_socket,
            port=reserved,
            user_argument=runs_as.argument,
            password=secrets.token_hex(16),
            by_tcp=by_tcp,
        )
        instance = Instance(site, options, role=role, runs_as=runs_as, account=account, log=log)
        undo.callback(instance._leave)
        yield instance


def _remove(account: processes.Account) -> None:
    with signals_held():
        processes.close_account(account)


def _ending(status: int) -> str:
    """How a process ended, in words."""
    if status < 0:
        return f"ended by signal {-status} ({signal.Signals(-status).name})"
    return f"ended with exit status {status}"
