"""Provide the servers that benchmarks run on."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from millrace.errors import MillraceError
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers import install
from millrace.servers.instances import lifecycle
from millrace.servers.instances.instance import Instance
from millrace.servers.instances.signals import signals_as_errors


def installed(name: str) -> InstalledServer:
    """Return a server of the catalogue, downloaded where it is missing.

    Without one the process ends with exit status 2 and the reason.
    """
    try:
        return install.install(name)
    except MillraceError as error:
        print(f"--server: {error.message}; {error.hint}", file=sys.stderr)
        sys.exit(2)


def fitted(options: Mapping[str, str | None]) -> FittedOptions:
    """Return options unchanged, for a server that knows all of them; None is a bare switch."""
    applied = tuple(Option(name, value, False, "benchmark") for name, value in options.items())
    return FittedOptions("benchmark", applied)


@contextmanager
def running(server: InstalledServer, options: Mapping[str, str | None]) -> Iterator[Instance]:
    """Start a server with an empty data directory.

    Both are removed when the block ends or a signal ends the process. A failure ends the process
    with the reason.
    """
    try:
        with signals_as_errors(), lifecycle.create(server, fitted(options)) as instance:
            instance.initialise(limit_s=180)
            instance.start(limit_s=180)
            try:
                yield instance
            finally:
                instance.kill()
    except MillraceError as error:
        print(error.message, error.hint or "", sep="\n", file=sys.stderr)
        sys.exit(error.exit_status)
