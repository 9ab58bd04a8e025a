"""Make a server wait in fsync and fdatasync by a preloaded library of a few lines of C."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from millrace import paths
from millrace.errors import HostError
from millrace.shared_directories import is_own, refuse_shared

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


def environment(delay_us: int) -> dict[str, str]:
    """Return the environment that delays each flush of a server. Raise HostError."""
    return {"LD_PRELOAD": str(library()), _DELAY_VARIABLE: str(delay_us)}


def library() -> Path:
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
