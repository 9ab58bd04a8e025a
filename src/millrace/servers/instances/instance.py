"""Run a server in an instance's directories: initialise, restore, start, query, stop, kill."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from millrace import databases
from millrace.databases.base import ServerClient, Site
from millrace.databases.client import Address, Session
from millrace.errors import DatabaseError, TrialFailed
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers.instances import (
    confinement,
    instance_paths,
    launch,
    ownership,
    processes,
    users,
)
from millrace.servers.instances.error_log import ErrorLog
from millrace.servers.instances.signals import ending, signals_held
from millrace.shown_text import shown_line
from millrace.tls import Tls

_END_LIMIT_S = 15.0
_POLL_S = 0.02
ERROR_LOG = "error.log"
_OUTPUT_LIMIT_BYTES = 16 << 20


class Instance(ServerClient):
    """A server that millrace runs; ``lifecycle.create`` creates it.

    ``load_dir`` is the only directory from which the server may load files. The files there must be
    readable by all; the server cannot write there. ``pid`` is None while no server runs.

    The server's user is not trusted. That user owns ``data_dir`` and two other directories;
    millrace owns all the rest. No process of that user runs while millrace works inside the user's
    directories.
    """

    is_managed = True

    def __init__(
        self,
        site: Site,
        options: FittedOptions,
        *,
        runs_as: launch.RunsAs,
        record: ownership.OwnershipRecord,
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
                # The kernel confirms that the listening process is the one that millrace started.
                tls=Tls(allow_unverified=True),
            ),
        )
        self.id = record.id
        self.options = options
        self.directory = site.directory
        self.data_dir = site.data_dir
        self.tmp_dir = site.tmp_dir
        self.load_dir = site.load_dir
        self.error_log = site.directory / ERROR_LOG
        self._error_log = ErrorLog(self.error_log, family.log, port=site.port, socket=site.socket)
        self.pid_file = family.lifecycle.pid_file(site)
        self.socket = site.socket
        self.user = self._address.user
        self.password = site.password
        self.runs_as = runs_as.name
        self._site = site
        self._runs_as = runs_as
        self._record = record
        self._log = log
        self._socket_descriptor: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> InstalledServer:
        return self._site.server

    @property
    def pid(self) -> int | None:
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    @property
    def ended(self) -> str | None:
        """The end of the server process in words; None if it runs or none was started."""
        status = None if self._process is None else self._process.poll()
        return None if status is None else ending(status)

    @property
    def client_socket(self) -> Path:
        """The socket that the server opened at its start, even if the path now leads elsewhere."""
        return self._address.socket or self.socket

    def initialise(self, limit_s: float) -> None:
        """Create a data directory whose only account is ``Family.account``. Raise TrialFailed."""
        todo = self.family.lifecycle.initialisation(self._site, self.init_options())
        for name in todo.directories:
            instance_paths.make_given_away(self.data_dir / name, self._runs_as.uid)
        with instance_paths.init_file(self.directory, todo, self._runs_as.uid) as arguments:
            process = self._spawn(arguments, stdin=subprocess.PIPE)
            try:
                process.communicate(todo.stdin, timeout=limit_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise self._failure("initialise", f"timed out after {limit_s:g} s") from None
        self._end_what_is_left()
        if process.returncode != 0:
            raise self._failure("initialise", ending(process.returncode))
        self._process = None

    def init_options(self) -> tuple[Option, ...]:
        """Return the options that affect what ``initialise`` writes."""
        rules = self.family.options
        return tuple(
            option
            for option in self.options.applied
            if not rules.init_options.isdisjoint(rules.forms(option.name))
        )

    @property
    def uid(self) -> int | None:
        """The id of the server's user; None if that is the user of this process."""
        return self._runs_as.uid

    def set_password(self, password: str) -> None:
        """Set the password for the login to a data directory that ``initialise`` did not make."""
        self.password = password
        self._site = replace(self._site, password=password)
        self._address = replace(self._address, password=password)

    def keep_data(self, directory: Path | None) -> None:
        """Keep the data directory below ``directory`` when the instance ends; None: remove it."""
        self._record = ownership.keep_data(self._record, directory)

    def start(
        self, limit_s: float, *, tool: launch.Tool | None = None, may_recover: bool = False
    ) -> None:
        """Start the server, and wait up to ``limit_s`` until a login succeeds. Raise TrialFailed.

        A ``tool`` runs the server's program. A server that ``may_recover`` is not stopped because
        of its log messages: it may report damaged pages while it repairs them.
        """
        if instance_paths.is_answered_at(self.socket):  # old servers would replace the socket
            raise self._foreign(f"the socket {self.socket} is taken by another process")
        self._spawn(
            [
                *self.family.lifecycle.start_arguments(self._site),
                *(() if tool is None else tool.arguments),
                *self.family.options.arguments(self.options.applied),
            ],
            tool=tool,
        )
        self._error_log.begin_start()
        deadline = time.monotonic() + limit_s
        while not self._answers():
            self.check_alive(step="start")
            if not may_recover and (line := self._error_log.new_trouble()) is not None:
                self.kill()
                raise self._failure("start", "it cannot continue", trouble=line)
            if time.monotonic() > deadline:
                self.kill()
                raise self._failure("start", f"not ready after {limit_s:g} s")
            time.sleep(_POLL_S)
        self._refuse_foreign_answer()

    def log_tail(self, n_lines: int = 40) -> str:
        return self._error_log.tail(n_lines)

    def trouble(self) -> str | None:
        """Return why the server cannot continue, from new lines of its log; None if it can."""
        line = self._error_log.new_trouble()
        return None if line is None else self._error_log.describe(line)

    def check_alive(self, *, step: str | None = None) -> None:
        """Raise TrialFailed, with exit status and the end of the log, if the server has ended."""
        if self._process is None:
            raise TrialFailed(f"{self.server.name} is not running", step=step)
        if (ended := self.ended) is not None:
            raise self._failure(step, ended)

    def stop(self, limit_s: float) -> None:
        """Stop the server; kill it after ``limit_s``. Raise TrialFailed unless it exits with 0."""
        self.check_alive(step="stop")
        self._error_log.begin_phase()
        by = self.family.lifecycle.stop_signal
        if not self._end(by, limit_s):
            self.kill()
            raise self._failure("stop", f"still running {limit_s:g} s after {by.name}, so killed")
        self._end_what_is_left()
        status = self._process.returncode if self._process is not None else 0
        self._process = None
        if status != 0:
            raise self._failure("stop", ending(status))

    def kill(self) -> None:
        """Kill the server (SIGKILL) if it runs."""
        if self._runs_as.uid is not None:
            # This also kills a tracer, which the kernel notifies first of the server's end.
            users.kill_all(self._runs_as.uid)
        self._end(signal.SIGKILL, _END_LIMIT_S)
        self._end_what_is_left()

    def run_confined(
        self, argv: Sequence[str], limit_s: float, meanwhile: Callable[[], object]
    ) -> None:
        """Run a program as the server's user, confined as the server is, until it ends.

        Call ``meanwhile`` repeatedly until then. The program's output goes to the error log. Raise
        TrialFailed if the program fails, takes longer than ``limit_s``, or the server ends.
        """
        deadline = time.monotonic() + limit_s
        process = self._popen(argv, {})
        try:
            while process.poll() is None:
                self.check_alive()
                if time.monotonic() > deadline:
                    raise self._failure(None, f"{argv[0]} did not end within {limit_s:g} s")
                meanwhile()
                time.sleep(_POLL_S)
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            raise self._failure(None, f"{argv[0]} {ending(process.returncode)}")

    def program_output(self, arguments: list[str], limit_s: float) -> tuple[int, str]:
        """Run the server program without network; return exit status and stdout. Log its stderr."""
        with tempfile.TemporaryFile(dir=self.directory) as file:
            process = self._spawn(
                [*self.family.lifecycle.program_arguments(self._site), *arguments],
                output=file,
                network=False,
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
        tool: launch.Tool | None = None,
        network: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start the server program, or a tool that runs it, with a minimal environment.

        The environment has no secret and nothing that could change the measurement.
        """
        self._error_log.begin_phase()
        environment = {"HOME": str(self.directory), **self.server.env}
        argv = [*self.server.argv, *arguments]
        if tool is not None:
            environment, argv = {**environment, **tool.env}, [*tool.argv, *argv]
        with signals_held(), launch.open_files_limit_raised():
            self._process = self._popen(
                argv, environment, stdin=stdin, output=output, network=network
            )
        return self._process

    def _popen(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdin: int = subprocess.DEVNULL,
        output: IO[bytes] | None = None,
        network: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start a program as the server's user, in a session that Ctrl-C does not reach.

        The program can write only where the server can. Its stdout goes to ``output`` or the log.
        """
        own = {processes.ENVIRONMENT_VARIABLE: self.id}
        with signals_held():
            process = confinement.popen(
                argv,
                uid=self._runs_as.uid,
                writable=self._writable,
                env={**launch.BARE_ENVIRONMENT, **environment, **own},
                cwd=self.directory,
                stdin=stdin,
                stdout=output or self._log,
                stderr=self._log,
                network=network,
            )
            # If millrace is killed, the next one ends the process by its record.
            if (identity := processes.ProcessId.of(process.pid)) is not None:
                self._record = ownership.add_process(self._record, identity)
        return process

    @property
    def _writable(self) -> list[Path]:
        return sorted({self.directory, self._site.run_dir.parent})

    def _end(self, with_signal: signal.Signals, limit_s: float) -> bool:
        """Send a signal to the server process; return whether it has ended within the limit."""
        process = self._process
        if process is None:
            return True
        # The kernel does not reuse a child's process id before its parent waits for it.
        process.send_signal(with_signal)
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _answers(self) -> bool:
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
            raise self._failure("start", f"login failed: {error.message}") from error

    def _let_go_of_socket(self) -> None:
        if self._socket_descriptor is not None:
            os.close(self._socket_descriptor)
            self._socket_descriptor = None
            self._address = replace(self._address, socket=self.socket)

    def _refuse_foreign_process(self, session: Session) -> None:
        """Raise TrialFailed unless the process that listens on the socket is millrace's own."""
        pid = session.peer_pid
        if self._process is not None and pid != self._process.pid:
            self.kill()
            raise self._foreign(f"another process, {pid}, answers on the socket {self.socket}")

    def _refuse_foreign_answer(self) -> None:
        """Raise TrialFailed unless the server that answers has this data directory."""
        answered = self.family.administration.data_directory(self)
        # Resolved as text, because pathlib raises for a link to itself.
        if "\0" in answered or os.path.realpath(answered) != os.path.realpath(self.data_dir):
            self.kill()
            raise self._foreign(
                f"another server, with the data directory {shown_line(answered)}, answers on the "
                f"socket {self.socket}"
            )

    def _foreign(self, what: str) -> TrialFailed:
        return TrialFailed(
            f"{self.server.name}: {what}",
            hint="stop that process, or use another socket",
            step="start",
        )

    def _failure(self, step: str | None, what: str, *, trouble: str | None = None) -> TrialFailed:
        """Return the error of this phase, with the meaning or the messages of the log."""
        doing = {"initialise": " (initialising)", "start": " (starting)", "stop": " (stopping)"}
        explained = self._error_log.explain(what, trouble)
        message = f"{self.server.name}{doing.get(step or '', '')}: {explained}"
        return TrialFailed(message, step=step, log_tail=self.log_tail())

    def _end_what_is_left(self) -> None:
        """Kill all processes of the server's user before millrace works in its directories."""
        if self._runs_as.uid is not None:
            processes.end_all_of(self._runs_as.uid)

    def leave(self) -> None:
        """Stop the server, cleanly if possible; ignore its exit status."""
        with signals_held():
            self._let_go_of_socket()
            if not self._end(self.family.lifecycle.stop_signal, _END_LIMIT_S):
                self.kill()
            self._end_what_is_left()
