"""Install servers from nothing, through the package clients of this host.

The artifacts are fetched once, through ``mvn`` and ``npm`` themselves. From then on a mirror on
loopback serves them, which both clients are set to.
"""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from millrace.model.events import ignore
from millrace.servers import availability, catalogue, install
from millrace.servers.locks import exclusive
from millrace.servers.sources import maven, npm
from millrace.servers.sources.coordinates import Maven, Npm
from tests.support.small_origin import Origin, serving

pytestmark = pytest.mark.integration

NAME = "mysql-5.6.24"
FROM_MAVEN = "mysql-5.7.22"
LIMIT_S = 300


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files that a mirror of both kinds serves, by path."""
    place = tmp_path_factory.mktemp("artefacts")
    package = catalogue.entries()[NAME].sources[0]
    artefact = catalogue.entries()[FROM_MAVEN].sources[0]
    assert isinstance(package.coordinate, Npm)
    assert isinstance(artefact.coordinate, Maven)
    archive = npm.fetch(package.coordinate, place / "npm", None, ignore)
    jar = maven.fetch(artefact.coordinate, place / "m2", None, ignore)
    return {
        f"/{archive.name}": archive.read_bytes(),
        f"/{jar.relative_to(place)}": jar.read_bytes(),
    }


@pytest.fixture
def mirror(artefacts: dict[str, bytes]) -> Iterator[Origin]:
    with serving(artefacts) as origin:
        package = catalogue.entries()[NAME].sources[0].coordinate
        assert isinstance(package, Npm)
        tarball = {"tarball": f"{origin.address}/{npm.file_name(package)}"}
        version = {"name": package.name, "version": package.version, "dist": tarball}
        document = {"name": package.name, "versions": {package.version: version}}
        origin.files[f"/{package.name}"] = json.dumps(document).encode()
        yield origin


@pytest.fixture
def environment(
    child_environment: dict[str, str], tmp_path: Path, mirror: Origin
) -> dict[str, str]:
    """Provide an empty cache, and clients that are set to the mirror."""
    mine = set(maven.MORE_SETTINGS)
    home = maven_set_to(f"{mirror.address}/m2", tmp_path / "maven")
    return {
        **{name: value for name, value in child_environment.items() if name not in mine},
        "MILLRACE_CACHE": str(tmp_path / "cache"),
        "PATH": f"{home}/bin:{child_environment['PATH']}",
        "npm_config_registry": mirror.address,
        "no_proxy": "127.0.0.1",
    }


def maven_set_to(url: str, home: Path) -> Path:
    """Copy this host's Maven, with other settings of the installation."""
    mvn = shutil.which("mvn")
    assert mvn is not None
    original = Path(mvn).resolve().parents[1]
    shutil.copytree(original / "bin", home / "bin")
    (home / "conf").mkdir()
    for part in ("boot", "lib", "conf/logging"):
        (home / part).symlink_to(original / part)
    mirror = f"<mirror><id>loopback</id><mirrorOf>central</mirrorOf><url>{url}</url></mirror>"
    (home / "conf/settings.xml").write_text(f"<settings><mirrors>{mirror}</mirrors></settings>")
    return home


def millrace(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "millrace.cli.main", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_install_the_same_server_once(environment: dict[str, str]) -> None:
    cache = Path(environment["MILLRACE_CACHE"])
    with exclusive(cache / f"servers/.{NAME}.lock", "the test", ignore):
        processes = [millrace(environment, "servers", "install", NAME) for _ in range(2)]
        firsts = [process.stderr.readline() for process in processes if process.stderr]
        assert all("waiting" in line for line in firsts), firsts
    said = [process.communicate(timeout=LIMIT_S)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert "".join(said).count("unpacking") == 1
    assert {path.name for path in (cache / "servers").iterdir()} == {NAME, f".{NAME}.lock"}
    assert list((cache / "downloads").iterdir()) == []
    shown = subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", "servers", "show", NAME, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    server = json.loads(shown.stdout)
    assert server["version"] == "5.6.24"
    assert server["symbols"] == "DWARF"
    assert server["async_io"] == "libaio"


def test_an_installation_that_was_killed_can_be_repeated(environment: dict[str, str]) -> None:
    process = millrace(environment, "servers", "install", NAME)
    assert process.stderr is not None
    assert "unpacking" in process.stderr.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = millrace(environment, "servers", "install", NAME)
    _, said = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, said
    servers = Path(environment["MILLRACE_CACHE"]) / "servers"
    assert {path.name for path in servers.iterdir()} == {NAME, f".{NAME}.lock"}


def test_a_mistake_ends_with_2_and_a_missing_client_with_4(
    environment: dict[str, str], tmp_path: Path
) -> None:
    wrong = millrace(environment, "servers", "install", "mysql-5.6.25")
    assert "mysql-5.6.24" in wrong.communicate(timeout=LIMIT_S)[1]
    assert wrong.returncode == 2
    bare = millrace({**environment, "PATH": str(tmp_path)}, "servers", "install", NAME)
    assert "npm is not installed" in bare.communicate(timeout=LIMIT_S)[1]
    assert bare.returncode == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_installation_ends_its_client(
    number: signal.Signals, environment: dict[str, str]
) -> None:
    only_for_mvn = {"MAVEN_OPTS": "-Dset=somewhere"}
    process = millrace({**environment, **only_for_mvn}, "servers", "install", FROM_MAVEN)
    client = wait_for_child(process.pid)
    process.send_signal(number)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert not Path(f"/proc/{client}").exists()


@pytest.mark.parametrize("name", [NAME, FROM_MAVEN])
def test_an_interrupted_download_is_continued_by_the_next_installation(
    name: str, environment: dict[str, str], mirror: Origin
) -> None:
    size_bytes = catalogue.entries()[name].sources[0].size_bytes
    third = size_bytes // 3
    left = threading.Event()

    def stop_early(request: BaseHTTPRequestHandler, nth: int) -> bool:
        if not request.path.endswith((".tgz", ".jar")) or left.is_set():
            return False
        mirror.answer(request, cut_after=third)
        left.wait(LIMIT_S)
        return True

    mirror.behave = stop_early
    cache = Path(environment["MILLRACE_CACHE"])
    have = 0
    asked: list[str | None] = [None]
    for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        left.clear()
        process = millrace(environment, "servers", "install", name)
        try:
            part = wait_for_part(cache / "downloads", have + third // 2, process)
            process.send_signal(number)
            _, said = process.communicate(timeout=LIMIT_S)
        finally:
            left.set()
        assert process.returncode == status, said
        have = part.stat().st_size
        asked.append(f"bytes={have}-")
    again = millrace(environment, "servers", "install", name)
    _, said = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, said
    assert [range_ for path, range_ in mirror.asked if part.stem in path] == asked
    assert mirror.sent[-1] == size_bytes - have
    assert list((cache / "downloads").iterdir()) == []


def wait_for_part(directory: Path, size_bytes: int, process: subprocess.Popen[str]) -> Path:
    """Return the part of a download once it has this many bytes."""
    while process.poll() is None:
        for part in directory.rglob("*.part"):
            if part.stat().st_size >= size_bytes:
                return part
        time.sleep(0.01)
    raise AssertionError(process.communicate())


def wait_for_child(pid: int) -> str:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.001)
    return found[0]


def test_a_build_that_the_catalogue_does_not_have_gets_an_exact_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = catalogue.suites()["mariadb-bookworm"]
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(catalogue, "entries", dict)
    server = availability.install_newest(suite, ignore)
    package = availability.newest(suite)
    assert server.name == catalogue.exact_name("mariadb", str(package.version))
    assert server.version in str(package.version)
    assert server.provenance.source == str(package)
    assert server.provenance.artefacts[0].coordinate == str(package)
    assert availability.install_newest(suite, ignore) == server == install.find(server.name)
