"""Fetch artefacts of the Maven repository in the settings of the user's ``mvn``.

If a request needs only the repository's URL, millrace sends the request itself. The URL comes from
the settings of the user and of the installation or, without a mirror there, from Maven's own model:
no host is named here. The rules are those of Maven's settings reference and its guide to mirrors.
If a request needs more than a URL (a proxy, a password, a repository of a profile), or if other
settings may apply, only ``mvn`` can fetch the artefact.
"""

import os
import pwd
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from millrace.errors import HostError
from millrace.model.events import OnEvent
from millrace.servers.sources import clients
from millrace.servers.sources.coordinates import Maven

# Pinned, so that every host sends the same requests. Later versions also read the artefact's pom,
# but the parents of some poms were never published.
_GET = "org.apache.maven.plugins:maven-dependency-plugin:2.10:get"
_HOME = re.compile(r"^Maven home: (.+)$", re.MULTILINE)


def address(coordinate: Maven) -> str | None:
    """Return the artefact's URL; None if only ``mvn`` can fetch it. Raise HostError."""
    user_home = _user_home()
    if has_other_settings(clients.directory_of_settings(), user_home):
        return None
    home = _HOME.search(clients.run(["mvn", "--version"], purpose=f"to download {coordinate}"))
    if home is None:
        return None
    chosen = repository(user_home, Path(home.group(1).strip()))
    return None if chosen is None else f"{chosen.url}/{place(coordinate, Path())}"


def fetch(coordinate: Maven, local: Path, size_bytes: int | None, on_event: OnEvent) -> Path:
    """Fetch an artefact with ``mvn`` into ``local``, and return its path. Raise HostError."""
    arrived = place(coordinate, local)
    if arrived.is_file():
        return arrived
    arrived.parent.mkdir(parents=True, exist_ok=True)
    clients.run(
        [
            "mvn",
            "--batch-mode",
            "--quiet",
            "-Dstyle.color=never",
            _GET,
            f"-Dartifact={_argument(coordinate)}",
            "-Dtransitive=false",
            f"-Dmaven.repo.local={local}",
        ],
        purpose=f"to download {coordinate}",
        watch=clients.watch_growth(arrived.parent, str(coordinate), size_bytes, on_event),
    )
    if not arrived.is_file():
        raise HostError(
            f"mvn reported that it downloaded {coordinate}, but {arrived} does not exist"
        )
    return arrived


def _argument(coordinate: Maven) -> str:
    words = [coordinate.group, coordinate.artifact, coordinate.version, coordinate.extension]
    if coordinate.classifier is not None:
        words.append(coordinate.classifier)
    return ":".join(words)


def place(coordinate: Maven, local: Path) -> Path:
    """Return the artefact's path in the standard layout of a Maven repository."""
    classifier = "" if coordinate.classifier is None else f"-{coordinate.classifier}"
    name = f"{coordinate.artifact}-{coordinate.version}{classifier}.{coordinate.extension}"
    return local.joinpath(
        *coordinate.group.split("."), coordinate.artifact, coordinate.version, name
    )


def _user_home() -> Path:
    """Return the user's home as Java finds it: from the account, whatever HOME says."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path.home()


_MODEL = "org/apache/maven/model/pom-4.0.0.xml"
# Environment variables with further settings of Maven.
MORE_SETTINGS = (
    "MAVEN_ARGS", "MAVEN_CONFIG", "MAVEN_OPTS",
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS",
)  # fmt: skip
_START_SCRIPTS = ("/usr/local/etc/mavenrc", "/etc/mavenrc", "~/.mavenrc")


@dataclass(frozen=True)
class Repository:
    """A repository as in Maven's settings; credentials and mirrors refer to its id."""

    id: str
    url: str


@dataclass(frozen=True)
class _Mirror:
    repository: Repository
    of: str
    blocked: bool


def has_other_settings(directory: Path, user_home: Path) -> bool:
    """Return whether ``mvn`` in ``directory`` may have settings outside of its settings files."""
    words = " ".join(os.environ.get(variable, "") for variable in MORE_SETTINGS).split()
    scripts = (Path(script.replace("~", str(user_home))) for script in _START_SCRIPTS)
    return (
        any(not word.startswith("-X") for word in words)  # ignore options such as -Xmx
        or any(script.exists() for script in scripts)
        or any((folder / ".mvn").exists() for folder in (directory, *directory.parents))
    )


def repository(user_home: Path, maven_home: Path) -> Repository | None:
    """Return the repository of the artefacts; None if only ``mvn`` can find or reach it."""
    files = (user_home / ".m2/settings.xml", maven_home / "conf/settings.xml")
    try:
        settings = [_read(file.read_bytes()) for file in files if file.exists()]
        central = _central(maven_home)
    except (OSError, ElementTree.ParseError, zipfile.BadZipFile):
        return None
    if central is None or any(map(_is_offline_or_behind_a_proxy, settings)):
        return None
    mirror = _mirror_for(central, _mirrors(settings))
    if mirror is None and any(_all(each, "profiles/profile/repositories/*") for each in settings):
        return None
    if mirror is not None and mirror.blocked:
        return None
    chosen = central if mirror is None else mirror.repository
    servers = (server for each in settings for server in _all(each, "servers/server"))
    with_password = {_text(server, "id") for server in servers}
    return None if chosen.id in with_password or "${" in chosen.url else chosen


def is_mirror_of(rule: str, repository: Repository) -> bool:
    """Return whether ``mirrorOf``, a list of *, external:*, ids and !id, covers a repository."""
    covered = False
    for word in map(str.strip, rule.split(",")):
        if word in (repository.id, f"!{repository.id}"):
            return word == repository.id
        covered = covered or word == "*" or _is_external(word, repository.url)
    return covered


def _is_external(word: str, url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "file" or parts.hostname in ("localhost", "127.0.0.1"):
        return False
    return word == "external:*" or (word == "external:http:*" and parts.scheme == "http")


def _mirror_for(repository: Repository, mirrors: Sequence[_Mirror]) -> _Mirror | None:
    exact = (mirror for mirror in mirrors if mirror.of == repository.id)
    covering = (mirror for mirror in mirrors if is_mirror_of(mirror.of, repository))
    return next(exact, None) or next(covering, None)


def _mirrors(settings: Sequence[Element]) -> list[_Mirror]:
    """Return all mirrors in order; the user's come first and win over others with the same id."""
    found: dict[str, _Mirror] = {}
    for mirror in (mirror for each in settings for mirror in _all(each, "mirrors/mirror")):
        name = _text(mirror, "id")
        found.setdefault(
            name,
            _Mirror(
                Repository(name, _text(mirror, "url").rstrip("/")),
                _text(mirror, "mirrorOf"),
                blocked=_text(mirror, "blocked", "false") != "false",
            ),
        )
    return list(found.values())


def _is_offline_or_behind_a_proxy(settings: Element) -> bool:
    proxies = _all(settings, "proxies/proxy")
    return _text(settings, "offline", "false") != "false" or any(
        _text(proxy, "active", "true") != "false" for proxy in proxies
    )


def _central(maven_home: Path) -> Repository | None:
    """Return the repository of the model that every project inherits, from Maven's own jar."""
    for jar in sorted(maven_home.glob("lib/maven-model-builder-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            if _MODEL not in archive.namelist():
                continue
            model = _read(archive.read(_MODEL))
        for each in _all(model, "repositories/repository"):
            return Repository(_text(each, "id"), _text(each, "url").rstrip("/"))
    return None


def _read(text: bytes) -> Element:
    return ElementTree.fromstring(text)  # noqa: S314 (the user's own settings, and Maven's own model)


def _all(parent: Element, path: str) -> list[Element]:
    """Return the elements at a path, in any XML namespace."""
    return parent.findall("/".join(f"{{*}}{name}" for name in path.split("/")))


def _text(parent: Element, name: str, default: str = "") -> str:
    return (parent.findtext(f"{{*}}{name}") or default).strip()
