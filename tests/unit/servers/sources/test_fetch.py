"""Test plain HTTP to a client's repository or registry, on loopback, with small clients."""

import hashlib
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import HostError
from millrace.model.events import DownloadMoved, Emitted, ignore
from millrace.servers.sources import fetch, maven
from millrace.servers.sources.coordinates import Coordinate, Maven, Npm, Source
from millrace.servers.sources.maven import Repository
from tests.support.small_origin import Origin, serving

CONTENT = bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ARTEFACT = Maven("org.test", "thing", "1.2", "jar")
ARTEFACT_PATH = "/repo/org/test/thing/1.2/thing-1.2.jar"
PACKAGE = Npm("thing", "1.2.0")
PACKAGE_PATH = "/thing/-/thing-1.2.0.tgz"
CENTRAL = Repository("central", "https://central.test/m2")


def source(coordinate: Coordinate, sha256: str = SHA256) -> Source:
    return Source(coordinate, len(CONTENT), sha256)


def client(directory: Path, name: str, *cases: str) -> None:
    """Write a client on the PATH that answers some requests; others are recorded, and fail."""
    directory.mkdir(exist_ok=True)
    script = directory / name
    lines = [*cases, f'*) echo "$*" > {directory}/asked; echo "[ERROR] {name} asked"; exit 1 ;;']
    script.write_text('#!/bin/sh\ncase "$*" in\n' + "\n".join(lines) + "\nesac\n")
    script.chmod(0o755)


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of small clients, without this host's settings."""
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    for variable in maven.MORE_SETTINGS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(maven, "_user_home", lambda: tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "bin"


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving({ARTEFACT_PATH: CONTENT, PACKAGE_PATH: CONTENT}) as origin:
        yield origin


def set_maven(clients: Path, *mirrors: str, more: str = "", global_more: str = "") -> Path:
    """Set up a Maven whose user and installation have these settings; return the installation."""
    home = clients.parent / "maven"
    client(clients, "mvn", f'--version) echo "Maven home: {home}" ;;')
    write_settings(clients.parent / "home/.m2/settings.xml", "".join(mirrors), more)
    write_settings(home / "conf/settings.xml", "", global_more)
    (home / "lib").mkdir(exist_ok=True)
    with zipfile.ZipFile(home / "lib/maven-model-builder-3.9.jar", "w") as jar:
        repository = f"<id>{CENTRAL.id}</id><url>{CENTRAL.url}/</url>"
        jar.writestr(
            "org/apache/maven/model/pom-4.0.0.xml",
            f"<project><repositories><repository>{repository}</repository></repositories></project>",
        )
    return home


def write_settings(file: Path, mirrors: str, more: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        '<settings xmlns="http://settings.test/1.0.0">'
        f"<mirrors>{mirrors}</mirrors>{more}</settings>"
    )


def mirror(name: str, of: str, url: str = "https://mirror.test/m2/", more: str = "") -> str:
    return f"<mirror><id>{name}</id><mirrorOf>{of}</mirrorOf><url>{url}</url>{more}</mirror>"


def set_npm(clients: Path, origin: Origin, *, proxy: str = "null", host: str = "") -> None:
    registry = f"registry={origin.address}/\\nproxy={proxy}\\nhttps-proxy=null"
    client(
        clients,
        "npm",
        f"'config get registry proxy https-proxy '*) printf '{registry}\\n' ;;",
        f"""'view thing@1.2.0 '*) echo '"{host or origin.address}{PACKAGE_PATH}"' ;;""",
    )


@pytest.mark.parametrize(
    ("rule", "covered"),
    [
        ("*", True),
        ("central", True),
        ("external:*", True),
        ("external:http:*", False),
        ("other", False),
        ("", False),
        ("other, central", True),
        ("*,!central", False),
        ("!central,*", False),
        ("external:*, !other", True),
        ("!other", False),
    ],
)
def test_mirror_covers_what_its_rule_matches(rule: str, covered: bool) -> None:
    assert maven.is_mirror_of(rule, CENTRAL) is covered


def test_external_is_what_is_not_of_this_host() -> None:
    for url, external, plain in [
        ("http://else.test/", True, True),
        ("https://else.test/", True, False),
        ("http://localhost:8081/", False, False),
        ("http://127.0.0.1/", False, False),
        ("file:///srv/repo", False, False),
    ]:
        assert maven.is_mirror_of("external:*", Repository("a", url)) is external
        assert maven.is_mirror_of("external:http:*", Repository("a", url)) is plain


@given(st.lists(st.sampled_from(["*", "external:*", "other", "!other", "!central", " "])))
def test_a_refused_repository_is_never_covered(words: list[str]) -> None:
    covered = maven.is_mirror_of(",".join(words), CENTRAL)
    assert covered is ("!central" not in words and ("*" in words or "external:*" in words))


@pytest.mark.parametrize(
    ("mirrors", "expected"),
    [
        ([], CENTRAL),
        ([mirror("m", "*")], Repository("m", "https://mirror.test/m2")),
        (
            [mirror("a", "*"), mirror("b", "central", "https://b.test")],
            Repository("b", "https://b.test"),
        ),
        ([mirror("a", "*,!central")], CENTRAL),
        ([mirror("a", "*", more="<blocked>true</blocked>")], None),
        ([mirror("a", "*", "${env.MIRROR}")], None),
    ],
)
def test_the_repository_is_the_mirror_or_mavens_own(
    mirrors: list[str], expected: Repository | None, clients: Path
) -> None:
    home = set_maven(clients, *mirrors)
    assert maven.repository(clients.parent / "home", home) == expected


@pytest.mark.parametrize(
    "settings",
    [
        "<offline>true</offline>",
        "<proxies><proxy><id>p</id><host>proxy.test</host></proxy></proxies>",
        "<servers><server><id>m</id><username>u</username></server></servers>",
        "<broken>",
    ],
)
def test_only_mvn_is_used_when_an_address_is_not_enough(settings: str, clients: Path) -> None:
    harmless = (
        "<proxies><proxy><active>false</active></proxy></proxies>"
        "<servers><server><id>else</id></server></servers>"
        "<profiles><profile><repositories><repository/></repositories></profile></profiles>"
    )
    user = clients.parent / "home"
    home = set_maven(clients, mirror("m", "*"), more=harmless)
    assert maven.repository(user, home) is not None
    home = set_maven(clients, mirror("m", "*"), more=settings)
    assert maven.repository(user, home) is None
    home = set_maven(clients, mirror("m", "*"), global_more=settings)
    assert maven.repository(user, home) is None


def test_a_repository_of_a_profile_is_for_mvn(clients: Path) -> None:
    profile = "<profiles><profile><repositories><repository/></repositories></profile></profiles>"
    home = set_maven(clients, more=profile)
    assert maven.repository(clients.parent / "home", home) is None


def test_the_users_mirror_replaces_the_installations(clients: Path) -> None:
    home = set_maven(clients, mirror("m", "*", "https://user.test"))
    write_settings(home / "conf/settings.xml", mirror("m", "central", "https://host.test"), "")
    chosen = maven.repository(clients.parent / "home", home)
    assert chosen == Repository("m", "https://user.test")


def test_options_of_the_environment_are_for_mvn(
    clients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not maven.has_other_settings(tmp_path, tmp_path)
    monkeypatch.setenv("MAVEN_OPTS", "-Xmx512m")
    assert not maven.has_other_settings(tmp_path, tmp_path)
    monkeypatch.setenv("MAVEN_OPTS", "-Xmx512m -Dhttps.proxyHost=proxy.test")
    assert maven.has_other_settings(tmp_path, tmp_path)
    monkeypatch.delenv("MAVEN_OPTS")
    (tmp_path / "deep").mkdir()
    (tmp_path / ".mvn").mkdir()
    assert maven.has_other_settings(tmp_path / "deep", tmp_path / "home")


@pytest.mark.parametrize("coordinate", [ARTEFACT, PACKAGE])
def test_an_interrupted_download_is_continued(
    coordinate: Coordinate, clients: Path, origin: Origin, tmp_path: Path
) -> None:
    set_maven(clients, mirror("m", "central", f"{origin.address}/repo"))
    set_npm(clients, origin)
    half = len(CONTENT) // 2
    arriving: list[tuple[int, int | None]] = []

    def leave(event: Emitted) -> None:
        if not isinstance(event, DownloadMoved):
            raise KeyboardInterrupt
        arriving.append((event.done_bytes, event.total_bytes))

    def cut(request: BaseHTTPRequestHandler, nth: int) -> bool:
        origin.answer(request, cut_after=half)
        return True

    origin.behave = cut
    with pytest.raises(KeyboardInterrupt):
        fetch.fetch(source(coordinate), tmp_path / "work", leave)
    origin.behave = lambda request, nth: False
    arrived = fetch.fetch(source(coordinate), tmp_path / "work", leave)
    assert arrived.file.read_bytes() == CONTENT
    assert arrived.artefact.coordinate == str(coordinate)
    assert [asked for _, asked in origin.asked] == [None, f"bytes={half}-"]
    assert origin.sent == [half, len(CONTENT) - half]
    assert (half, len(CONTENT)) in arriving
    assert arriving == sorted(arriving)
    assert arriving[-1] == (len(CONTENT), len(CONTENT))
    fetch.fetch(source(coordinate), tmp_path / "work", leave)
    assert len(origin.asked) == 2, "what has arrived is not asked for again"


@pytest.mark.parametrize("coordinate", [ARTEFACT, PACKAGE])
def test_a_wrong_checksum_leaves_nothing(
    coordinate: Coordinate, clients: Path, origin: Origin, tmp_path: Path
) -> None:
    set_maven(clients, mirror("m", "central", f"{origin.address}/repo"))
    set_npm(clients, origin)
    with pytest.raises(HostError, match="wrong checksum"):
        fetch.fetch(source(coordinate, "0" * 64), tmp_path / "work", ignore)
    assert [path for path in (tmp_path / "work").rglob("*") if path.is_file()] == []
    assert not (clients / "asked").exists()


@pytest.mark.parametrize("status", [401, 403, 404, 407])
@pytest.mark.parametrize(("name", "coordinate"), [("mvn", ARTEFACT), ("npm", PACKAGE)])
def test_what_is_refused_is_left_to_the_client(
    name: str, coordinate: Coordinate, status: int, clients: Path, origin: Origin, tmp_path: Path
) -> None:
    set_maven(clients, mirror("m", "central", f"{origin.address}/repo"))
    set_npm(clients, origin)

    def behave(request: BaseHTTPRequestHandler, nth: int) -> bool:
        request.send_error(status)
        return True

    origin.behave = behave
    with pytest.raises(HostError, match=f"{name} asked"):
        fetch.fetch(source(coordinate), tmp_path / "work", ignore)
    assert len(origin.asked) == 1
    assert "thing" in (clients / "asked").read_text()


@pytest.mark.parametrize(
    "url", ["file:///srv/repo", "s3://bucket/repo", "http://user:word@127.0.0.1:1/repo"]
)
def test_other_addresses_are_left_to_mvn(url: str, clients: Path, tmp_path: Path) -> None:
    set_maven(clients, mirror("m", "*", url))
    with pytest.raises(HostError, match="mvn asked"):
        fetch.fetch(source(ARTEFACT), tmp_path / "work", ignore)


def test_a_proxy_or_another_host_is_left_to_npm(
    clients: Path, origin: Origin, tmp_path: Path
) -> None:
    set_npm(clients, origin, proxy="http://proxy.test")
    with pytest.raises(HostError, match="npm asked"):
        fetch.fetch(source(PACKAGE), tmp_path / "work", ignore)
    set_npm(clients, origin, host="http://else.test")
    with pytest.raises(HostError, match="npm asked"):
        fetch.fetch(source(PACKAGE), tmp_path / "work", ignore)
    assert origin.asked == []


@pytest.mark.parametrize(("name", "coordinate"), [("mvn", ARTEFACT), ("npm", PACKAGE)])
def test_missing_client_is_named_before_any_request(
    name: str,
    coordinate: Coordinate,
    clients: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(clients))
    with pytest.raises(HostError, match=f"^{name} is not installed; millrace needs it to download"):
        fetch.fetch(source(coordinate), tmp_path / "work", ignore)
