"""Query the sources of the catalogue, and resolve names that follow a Debian suite to a build.

Only an installation accepts a name such as ``mariadb-trixie``. It finds the newest version of the
suite and installs it under a name with the exact release and package revision. Experiments and
results use that exact name.
"""

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import HostError, NotServed
from millrace.model.events import OnEvent
from millrace.model.servers import InstalledServer
from millrace.servers import added, catalogue, install
from millrace.servers.catalogue import Entry, Suite
from millrace.servers.sources.coordinates import Deb
from millrace.servers.sources.fetch import require_served, suite_versions


def newest(suite: Suite) -> Deb:
    """Return the newest package of a suite, with its version. Raise HostError, NotServed."""
    with tempfile.TemporaryDirectory(prefix="millrace-apt-") as scratch:
        served = suite_versions(suite.package, Path(scratch))
    if not served:
        raise NotServed(
            f"{suite.name}: the Debian suite {suite.package.suite} no longer has a package "
            f"{suite.package.package}",
            hint="`millrace servers list` shows other builds",
        )
    return Deb(suite.package.suite, suite.package.package, served[0])


def install_newest(suite: Suite, on_event: OnEvent) -> InstalledServer:
    """Install the newest build of a suite under its exact name, if missing.

    Raise the errors of ``install``.
    """
    package = newest(suite)
    name = name_of(suite.family, package)
    if name in catalogue.entries():
        return install.install(name, on_event=on_event)
    there = added.added(name)
    if isinstance(there, InstalledServer) and there.provenance.source == str(package):
        return there
    return added.add_package(name, suite.family, package, on_event=on_event)


def name_of(family: str, package: Deb) -> str:
    """Return a build's exact name; a build in the catalogue has its name there."""
    assert package.version is not None
    for entry in catalogue.entries().values():
        for source in entry.sources:
            match source.coordinate:
                case Deb(package=package.package, version=package.version):
                    return entry.name
    return catalogue.exact_name(family, package.version)


_AT_ONCE = 4


@dataclass(frozen=True)
class Availability:
    """The availability of a server (None: no answer), with a reason or a suite's exact build."""

    served: bool | None
    reason: str = ""


def ask_all() -> Mapping[str, Availability]:
    """Query the sources of every server and suite; return by name. Download nothing."""
    entries, names = catalogue.entries(), catalogue.suites()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = [*pool.map(ask, entries.values()), *pool.map(ask_suite, names.values())]
    return dict(zip((*entries, *names), answers, strict=True))


def ask(entry: Entry) -> Availability:
    """Query the sources of a server in order until one has it."""
    refusals: list[NotServed] = []
    unclear: list[HostError] = []
    for source in entry.sources:
        try:
            with tempfile.TemporaryDirectory(prefix="millrace-ask-") as scratch:
                require_served(source, Path(scratch))
        except NotServed as error:
            refusals.append(error)
        except HostError as error:
            unclear.append(error)
        else:
            return Availability(served=True)
    reason = "; ".join(error.message for error in (*unclear, *refusals))
    return Availability(served=None if unclear else False, reason=reason)


def ask_suite(suite: Suite) -> Availability:
    """Query which exact build a suite's name means today."""
    try:
        package = newest(suite)
    except NotServed as error:
        return Availability(served=False, reason=error.message)
    except HostError as error:
        return Availability(served=None, reason=error.message)
    return Availability(served=True, reason=name_of(suite.family, package))
