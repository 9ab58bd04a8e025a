"""Inject the slowdowns of a calibration into a trial's server, and measure their size.

*Stopped.* While it is measured, the server is stopped (SIGSTOP) and continued in turns of a tenth
of a second, as the CPU limit of a container does. millrace's own clock measures the stops, and each
turn makes up for earlier ones, so that the share of the whole is met to within a hundredth of it,
however late a turn was. This needs no rights but those over millrace's own server.

In a round of slices a stopped server would be stopped in the slices of the others, too. There the
slower side rests after each of its slices, for as long as a stop of that share would take.

*fsync.* A library of a few lines of C, loaded before the server's own, waits in fsync.

*An option* is an option that an experiment varies: see millrace.campaign.inputs.
"""

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from millrace import paths
from millrace.collect.collectors import Edge
from millrace.collect.server_processes import ServerProcesses, Stopper, processes_of
from millrace.errors import HostError, TrialFailed, UserError
from millrace.experiment.slowdown import OptionGiven, Slowdown, SlowFsync, Stopped
from millrace.loadgen.events import LoadResult
from millrace.model.measurements import SLOWDOWN_STOPPED_S, SLOWDOWN_WINDOW_S
from millrace.model.servers import FittedOptions, InstalledServer, Server
from millrace.servers.configurations.check import about
from millrace.shared_directories import is_own, refuse_shared
from millrace.trial.hooks import MeasurementContext, MeasurementHook, WindowHook
from millrace.trial.spec import TrialSpec

_COMPILERS = ("cc", "gcc", "clang")
_COMPILE_LIMIT_S = 60.0
_DELAY_VARIABLE = "MILLRACE_FSYNC_DELAY_US"
_SLOW_FSYNC = f"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void delay(void) {{
  const char *said = getenv("{_DELAY_VARIABLE}");
  long us = said ? atol(said) : 0;
  struct timespec left = {{us / 1000000, us % 1000000 * 1000}};
  while (us > 0 && nanosleep(&left, &left) != 0) {{}}
}}

int fsync(int fd) {{ delay(); return syscall(SYS_fsync, fd); }}
int fdatasync(int fd) {{ delay(); return syscall(SYS_fdatasync, fd); }}
"""

_TURN_S = 0.1
_SHORTEST_S = 0.0002  # less than that costs the signals more than it stops


def hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield a hook for each server that is stopped for a share of the measured time."""
    for spec, server in zip(measurement.spec.servers, measurement.servers, strict=True):
        if isinstance(spec.slowdown, Stopped):
            processes = processes_of(server.client)  # of a managed server: see slowed_server
            if processes is None:
                raise TrialFailed(f"{server.client.server.name} is not running")
            hook = StopInjection(processes, spec.slowdown.share, measurement, server.role)
            opened.callback(hook.end)
            yield hook


def slowdown_in_slices(spec: TrialSpec) -> float:
    """Return the share of its slices' time for which a side of a round rests after them."""
    slowdown = spec.servers[0].slowdown
    return slowdown.share / (1 - slowdown.share) if isinstance(slowdown, Stopped) else 0.0


class StopInjection(WindowHook):
    """Stop a server for a share of the measured time."""

    def __init__(
        self, processes: ServerProcesses, share: float, measurement: MeasurementContext, role: str
    ) -> None:
        super().__init__(measurement)
        self._role = role
        self._turns = _Turns(processes, share)

    def at_edge(self, edge: Edge) -> None:
        if edge == "begin":
            self._turns.start()
        else:
            self._turns.end()

    def end(self) -> None:
        """Stop the server no more; it runs when this returns."""
        self._turns.end()

    def contribute(self, result: LoadResult) -> None:
        outputs = self._measurement.outputs
        outputs.add_measurement(SLOWDOWN_STOPPED_S, self._turns.stopped_s, self._role)
        outputs.add_measurement(SLOWDOWN_WINDOW_S, self._turns.lasted_s, self._role)


def slowed_server(server: Server, slowdown: Slowdown | None) -> Server:
    """Return the slowed server. Raise UserError if it is attached, HostError without a compiler."""
    if slowdown is None:
        return server
    if not isinstance(server, InstalledServer):
        raise UserError(
            f"{server.name} is attached: millrace cannot slow it down",
            hint="calibrate with --slowdown none, or on a server that millrace starts",
        )
    if not isinstance(slowdown, SlowFsync):
        return server
    return replace(server, env={**server.env, **slow_fsync_environment(slowdown.delay_us)})


def refuse_left_out(server: Server, fitted: FittedOptions, slowdown: Slowdown | None) -> None:
    """Raise UserError where a server lacks the option that should slow it down."""
    if not isinstance(slowdown, OptionGiven):
        return
    for left in fitted.left_out:
        if about(left.option.name) == about(slowdown.name):
            raise UserError(
                f"--slowdown {slowdown.level}: {left.reason}",
                hint=f"name an option that {server.name} has, or take --slowdown cpu",
            )


class _Turns:
    """Stop a server for a share of the time, in turns, in a thread of its own."""

    def __init__(self, processes: ServerProcesses, share: float) -> None:
        self.stopped_s = 0.0
        self.lasted_s = 0.0
        self._share = share
        self._over = threading.Event()
        self._processes = processes
        self._thread = threading.Thread(target=self._take_turns, daemon=True)

    def start(self) -> None:
        self._stopper = Stopper(self._processes)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join()

    def _take_turns(self) -> None:
        began = time.monotonic()
        turn = 0
        try:
            while not self._over.wait(max(began + (turn + 0.5) * _TURN_S - time.monotonic(), 0)):
                turn += 1
                self._stop(owed(self._share, turn, self.stopped_s))
        except ProcessLookupError:
            pass  # it has ended, which the trial notices itself
        finally:
            self.lasted_s = time.monotonic() - began
            self._stopper.close()

    def _stop(self, owed_s: float) -> None:
        if owed_s < _SHORTEST_S:
            return
        self._stopper.stop()
        since = time.monotonic()
        try:
            time.sleep(owed_s)
        finally:
            self._stopper.resume()
            self.stopped_s += time.monotonic() - since


def owed(share: float, turn: int, stopped_s: float) -> float:
    """Return the seconds to stop in turn ``turn`` (from 1) to meet the share of all turns."""
    return share * turn * _TURN_S - stopped_s


def slow_fsync_environment(delay_us: int) -> dict[str, str]:
    """Return the environment that delays each flush of a server. Raise HostError."""
    return {"LD_PRELOAD": str(slow_fsync_library()), _DELAY_VARIABLE: str(delay_us)}


def slow_fsync_library() -> Path:
    """Return the library that delays fsync, compiled once. Raise HostError without a compiler."""
    place = paths.cache_dir() / "slow-fsync" / "slow_fsync.so"
    place.parent.mkdir(parents=True, exist_ok=True)
    refuse_shared(place.parent, "MILLRACE_CACHE")
    if place.exists() and is_own(place.lstat()):
        return place
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise HostError(
            f"a delay of fsync needs a C compiler: none of {', '.join(_COMPILERS)} is here",
            hint="install one, or inject another slowdown: --slowdown cpu",
        )
    with tempfile.TemporaryDirectory(dir=place.parent) as directory:
        made = Path(directory) / place.name
        done = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(made)],
            input=_SLOW_FSYNC,
            capture_output=True,
            text=True,
            timeout=_COMPILE_LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise HostError(
                f"{compiler} cannot make the library that delays fsync: {done.stderr.strip()}",
                hint="inject another slowdown: --slowdown cpu",
            )
        made.chmod(0o755)  # servers run as another user
        made.replace(place)
    return place
