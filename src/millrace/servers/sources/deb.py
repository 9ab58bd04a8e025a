"""Fetch Debian packages with their dependencies through ``apt``, without installing anything.

apt gets its own root for each suite, with separate package lists, archive directory, and an empty
list of installed packages, so it resolves and fetches all dependencies. It checks the signatures of
the lists and the hashes of the packages as it does for the host. The mirror and the keyring are
those of the host's own apt sources; other suites are expected on the same mirror.
"""

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from millrace import atomic_file
from millrace.errors import HostError, NotServed, PermanentHostError
from millrace.model.events import Notice, OnEvent
from millrace.servers.sources import clients
from millrace.servers.sources.coordinates import Deb

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_APT_CONF = "apt.conf"
NOTES = (_APT_CONF, "lock")
"""Files that apt itself creates among the packages."""
_SUITES_WITHOUT_SECURITY = ("sid", "unstable", "experimental")

# The #clear lines remove the host's hooks (caches, desktop catalogues), which must not run here.
# The lists of old suites have expired, because nobody signs them again, but are authentic.
_CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Default-Release;
Dir::State "{root}/state";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Cache::archives "{archives}";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{root}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
Debug::NoLocking "true";
"""


@dataclass(frozen=True)
class Packages:
    """Fetched packages: ``main`` (in version ``used``) and its dependencies."""

    main: Path
    others: tuple[Path, ...]
    used: Deb


def fetch(coordinate: Deb, root: Path, archives: Path, on_event: OnEvent) -> Packages:
    """Fetch a package and its dependencies into ``archives``.

    ``root`` is the directory of apt's lists for this suite; the caller ensures that only one
    process uses it at a time. Raise HostError if apt or a Debian mirror is missing, NotServed if
    the suite does not have this version.
    """
    purpose = f"to download {coordinate}"
    served = versions(coordinate, root, archives, on_event)
    used = require_version(coordinate, served)
    apt = ("apt-get", "-c", str(archives / _APT_CONF))
    install = ["install", "--yes", f"{used.package}={used.version}"]
    missing_bytes = _total_bytes(clients.run([*apt, "--print-uris", *install], purpose=purpose))
    clients.run(
        [*apt, "--download-only", *install],
        purpose=purpose,
        watch=clients.watch_growth(archives, str(used), missing_bytes, on_event),
    )
    main = _file_of(used, archives)
    others = (each for each in sorted(archives.glob("*.deb")) if each != main)
    return Packages(main, tuple(others), used)


def fetch_alone(coordinate: Deb, root: Path, archives: Path, on_event: OnEvent) -> Path:
    """Fetch a package without its dependencies, and return its file; otherwise see ``fetch``."""
    used = require_version(coordinate, versions(coordinate, root, archives, on_event))
    apt = ("apt-get", "-c", str(archives / _APT_CONF))
    clients.run(
        [*apt, "download", f"{used.package}={used.version}"],
        purpose=f"to download {coordinate}",
        directory=archives,
    )
    return _file_of(used, archives)


def versions(coordinate: Deb, root: Path, archives: Path, on_event: OnEvent) -> list[str]:
    """Return every version that the suite has today, newest first; otherwise see ``fetch``."""
    configuration = _prepare(coordinate, root, archives)
    purpose = f"to find {coordinate}"
    on_event(Notice(f"querying apt for {coordinate.package} of {coordinate.suite}"))
    clients.run(["apt-get", "-c", str(configuration), "update", "--error-on=any"], purpose=purpose)
    listed = clients.run(
        ["apt-cache", "-c", str(configuration), "madison", coordinate.package], purpose=purpose
    )
    rows = [line.split("|") for line in listed.splitlines() if line.count("|") >= 2]
    return [row[1].strip() for row in rows]


def _prepare(coordinate: Deb, root: Path, archives: Path) -> Path:
    for directory in (root / "state/lists/partial", root / "cache", archives / "partial"):
        directory.mkdir(parents=True, exist_ok=True)
    # write_text replaces existing files, so links are not followed.
    atomic_file.write_text(root / "status", "")
    atomic_file.write_text(root / "sources.list", _sources_list(coordinate.suite, root))
    configuration = archives / _APT_CONF
    atomic_file.write_text(configuration, _CONFIGURATION.format(root=root, archives=archives))
    return configuration


def _sources_list(suite: str, root: Path) -> str:
    """Return apt sources for the suite and its security suite, on this host's mirrors."""
    mirrors = _host_mirrors(root)
    host_suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    mirror = main_mirror(mirrors, host_suite)
    if mirror is None:
        raise PermanentHostError(
            f"cannot download packages of the Debian suite {suite}: "
            "the apt sources of this host have no Debian mirror",
            hint="use a Debian host, or add the vendor's tarball: "
            "`millrace servers add NAME --family FAMILY --tarball PATH`",
        )
    base = suite.removesuffix("-security")
    options = f"[target=Packages{f' signed-by={_KEYRING}' if _KEYRING.exists() else ''}]"
    lines = [f"deb {options} {mirror} {base} main"]
    security = security_mirror(mirrors, host_suite, mirror)
    if base not in _SUITES_WITHOUT_SECURITY and security is not None:
        lines.append(f"deb {options} {security} {base}-security main")
    return "\n".join(lines) + "\n"


def _host_mirrors(root: Path) -> list[tuple[str, str]]:
    """Return the (URI, suite) pairs of the host's own sources, as apt itself reads them."""
    nothing = root / "no-lists"
    (nothing / "partial").mkdir(parents=True, exist_ok=True)
    listed = clients.run(
        ["apt-get", "-o", f"Dir::State::lists={nothing}", "update", "--print-uris"],
        purpose="to find the Debian mirror of this host",
    )
    return re.findall(r"^'(\S+?)/?/dists/(\S+)/InRelease'", listed, re.MULTILINE)


def main_mirror(mirrors: list[tuple[str, str]], host_suite: str) -> str | None:
    """Return the URI of the distribution itself, which alone has a suite ``-updates``, if any."""
    serving = [uri for uri, suite in mirrors if suite == host_suite]
    updated = [uri for uri in serving if (uri, f"{host_suite}-updates") in mirrors]
    likely = updated or [uri for uri in serving if uri.endswith("/debian")]
    return likely[0] if likely else None


def security_mirror(mirrors: list[tuple[str, str]], host_suite: str, mirror: str) -> str | None:
    """Return the URI of the security suites: the host's own, or next to a full mirror."""
    for uri, suite in mirrors:
        if suite == f"{host_suite}-security":
            return uri
    return f"{mirror}-security" if mirror.endswith("/debian") else None


def require_version(coordinate: Deb, served: list[str]) -> Deb:
    """Return the coordinate with its exact version. Raise NotServed if the suite lacks it."""
    version = coordinate.version or next(iter(served), None)
    if version is None or version not in served:
        serves = f"it has {', '.join(served)}" if served else "it has no such package"
        raise NotServed(
            f"the Debian suite {coordinate.suite} no longer has {coordinate}: {serves}",
            hint="`millrace servers list` shows other builds; add a build of your own with "
            "`millrace servers add NAME --family FAMILY --tarball PATH`",
        )
    return Deb(coordinate.suite, coordinate.package, version)


def _total_bytes(print_uris: str) -> int:
    return sum(map(int, re.findall(r"^'\S+' \S+\.deb (\d+)", print_uris, re.MULTILINE)))


def _file_of(used: Deb, archives: Path) -> Path:
    version = (used.version or "").replace(":", "%3a")
    found = sorted(archives.glob(f"{used.package}_{version}_*.deb"))
    if not found:
        raise HostError(
            f"apt reported that it downloaded {used}, but the package is not in {archives}"
        )
    return found[0]
