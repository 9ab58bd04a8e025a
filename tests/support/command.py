"""Run the ``millrace`` command as a user does, in a directory of its own.

Starting a process, and measuring how long CPUs take to wake, cost each command a second or two, so
most commands run in the process of the tests.
"""

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from millrace.cli import console
from millrace.cli.main import main
from millrace.model.events import Event, StepBegan, TrialEnded
from millrace.servers.instances.instance import Instance
from millrace.store.records import StoredRun
from millrace.store.store import Store
from tests.event_files import read_events

SOURCE = Path(__file__).parents[2] / "src"
EVENT_LIMIT_S = 120.0
WIDTH = 200

QUICK_START = "options.table_definition_cache = [400]"
"""A factor that lets MySQL 5.6 start sooner, see ``tests.servers.quick_start``."""

SHORT_TRIALS = """\
[parameters]
table_size = 1_000
time_s = 0.5
warmup_s = 0.1
settle_s = 0.3
"""
"""The end of an experiment file of sysbench's tests, whose trials are over in seconds."""


def experiment(
    directory: Path,
    *,
    servers: Sequence[str] = ("mysql-5.6.24",),
    rows: int = 5_000,
    blocks: int = 1,
    factors: Mapping[str, Sequence[str]] | None = None,
    more: str = "",
) -> Path:
    """Write an experiment file to ``directory``; the first server is the base."""
    varied = {"server": servers, **(factors or {})}
    lines = [f"{name} = {list(levels)}" for name, levels in varied.items()]
    if any(name.startswith("mysql-5.6") for name in servers):
        lines.append(QUICK_START)
    file = directory / "experiment.toml"
    file.write_text(
        'name = "test"\ntitle = "A test"\nworkload = "load-data"\n'
        f"blocks = {blocks}\nseed = 1\n"
        "[factors]\n" + "\n".join(lines) + "\n"
        f'[compare]\nfactor = "server"\nbase = "{servers[0]}"\n'
        f"[parameters]\nrows = {rows}\n{more}",
        encoding="utf-8",
    )
    return file


class Place:
    """A directory with a store; commands run with it as their store."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.store = directory / "results.sqlite"
        self._earlier = 0  # events of commands that ended before the running one
        self._environment = {"MILLRACE_STORE": str(self.store), **(environment or {})}

    def millrace(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in this process; an unexpected error is raised."""
        command = ["millrace", *map(str, arguments)]
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as out,
            tempfile.TemporaryFile("w+", encoding="utf-8") as err,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "argv", command)
            for talk in (console.out, console.err):
                patch.setattr(talk, "width", WIDTH)
            for name, value in self._environment.items():
                patch.setenv(name, value)
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main()
            for file in (out, err):
                file.seek(0)
            status = ended.value.code
            assert isinstance(status, int)
            return subprocess.CompletedProcess(command, status, out.read(), err.read())

    @contextmanager
    def attached(self, instance: Instance, family: str, by: str = "socket") -> Iterator[None]:
        """Add a running server under the name ``theirs`` for the block."""
        at = f"127.0.0.1:{instance.port}/" if by == "tcp" else f"/?socket={instance.socket}"
        dsn = f"mysql://{instance.user}:{instance.password}@{at}"
        added = self.millrace("servers", "add", "theirs", "--family", family, "--attach", dsn)
        assert added.returncode == 0, added.stderr
        try:
            yield
        finally:
            self.millrace("servers", "remove", "theirs")

    def process(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in a process of its own."""
        return subprocess.run(
            self._command(arguments),
            env=self._process_environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    @contextmanager
    def running(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """Run a command in the background; kill it if it still runs at the end of the block."""
        self._earlier = len(list(self._events()))
        process = subprocess.Popen(
            self._command(arguments),
            env=self._process_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _process_environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(SOURCE), "COLUMNS": str(WIDTH)}
        return {**os.environ, **own, **self._environment}

    def _command(self, arguments: Sequence[str | Path]) -> list[str]:
        return [sys.executable, "-m", "millrace.cli.main", *map(str, arguments)]

    def latest(self) -> StoredRun:
        """Return the newest run of the store, with everything in it."""
        with Store.open(self.store, read_only=True) as store:
            return store.load_run(store.find_run("latest").id)

    def wait_for_step(self, name: str, process: subprocess.Popen[str], *, after: int = 0) -> None:
        """Wait until a trial of the running command, after ``after`` ended ones, is at a step."""
        deadline = time.monotonic() + EVENT_LIMIT_S
        read = 0
        while time.monotonic() < deadline:
            size = sum(file.stat().st_size for file in self._event_files())
            if size != read:
                read = size
                if self._is_at_step(name, after):
                    return
            if process.poll() is not None:
                raise AssertionError(f"the run ended before step {name}: {process.communicate()}")
            time.sleep(0.01)
        raise AssertionError(f"no trial came to step {name}")

    def _is_at_step(self, name: str, after: int) -> bool:
        ended = 0
        for event in itertools.islice(self._events(), self._earlier, None):
            ended += isinstance(event, TrialEnded)
            if ended >= after and isinstance(event, StepBegan) and event.name == name:
                return True
        return False

    def _events(self) -> Iterator[Event]:
        for file in self._event_files():
            yield from read_events(file)

    def _event_files(self) -> list[Path]:
        return sorted(self.directory.glob("results.sqlite.events/*.jsonl"))
