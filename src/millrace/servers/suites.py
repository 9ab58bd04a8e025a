"""Resolve names that follow a Debian suite, such as ``mariadb-trixie``, to an exact build.

Only an installation accepts such a name: it finds the newest version, and installs it under the
exact name of its release and package revision, which experiments and results then use.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from millrace.errors import NotServed
from millrace.model.servers import InstalledServer
from millrace.servers import added, catalogue, install
from millrace.servers.catalogue import Suite
from millrace.servers.progress import Progress
from millrace.servers.sources.coordinates import Deb
from millrace.servers.sources.fetch import suite_versions


def newest(suite: Suite) -> Deb:
    """Return the newest package of a suite, with its version.

    Raise HostError where apt or its mirror cannot be queried, NotServed where the suite no longer
    has the package.
    """
    with tempfile.TemporaryDirectory(prefix="millrace-apt-") as scratch:
        served = suite_versions(suite.package, Path(scratch))
    if not served:
        raise NotServed(
            f"{suite.name}: the Debian suite {suite.package.suite} has no package "
            f"{suite.package.package} any more",
            hint="millrace servers list shows other builds",
        )
    return Deb(suite.package.suite, suite.package.package, served[0])


def install_newest(suite: Suite, progress: Progress) -> InstalledServer:
    """Install the newest build of a suite under its exact name, unless it is installed already.

    The catalogue's checksum verifies a build of the catalogue, apt alone any other. Raise the
    errors of ``install.install``.
    """
    package = newest(suite)
    name = name_of(suite.family, package)
    if name in catalogue.entries():
        return install.install(name, progress=progress)
    there = added.added(name)
    if isinstance(there, InstalledServer) and there.provenance.source == str(package):
        return there
    return added.add_package(name, suite.family, package, progress=progress)


def name_of(family: str, package: Deb) -> str:
    """Return the exact name of a package with a version: the catalogue's, where it has this build.

    Debian builds a version once, whichever suites have it.
    """
    assert package.version is not None
    for entry in catalogue.entries().values():
        for source in entry.sources:
            match source.coordinate:
                case Deb(package=package.package, version=package.version):
                    return entry.name
    return catalogue.exact_name(family, package.version)
