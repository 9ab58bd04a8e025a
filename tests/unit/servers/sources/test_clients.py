from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import HostError, NotServed, PermanentHostError, UserError
from millrace.model.events import DownloadMoved, Emitted, ignore
from millrace.servers.sources import clients, coordinates, deb, maven, npm
from millrace.servers.sources.coordinates import Deb, Directory, Maven, Npm, Tarball

word = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,12}", fullmatch=True)
version = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.+~:-]{0,12}", fullmatch=True)
coordinate = st.one_of(
    st.builds(Maven, word, word, word, word, st.none() | word),
    st.builds(Npm, word | st.builds("@{}/{}".format, word, word), word),
    st.builds(Deb, word, word, st.none() | version),
    st.builds(Tarball, st.text(min_size=1)),
    st.builds(Directory, st.text(min_size=1)),
)


@given(coordinate)
def test_a_coordinate_reads_back_from_its_text(
    value: Maven | Npm | Deb | Tarball | Directory,
) -> None:
    assert coordinates.parse(str(value)) == value


@given(st.text())
def test_any_text_is_a_coordinate_or_a_mistake(text: str) -> None:
    try:
        parsed = coordinates.parse(text)
    except UserError:
        return
    assert str(parsed) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "pip:mysql", "maven:group:artifact:jar", "maven:g:a:1:c:jar:more",
        "maven:g:../../etc:1:jar", "npm:name", "npm:--registry=x@1", "deb:sid",
        "deb:sid:package=", "deb:-o=x:package", "tarball:", "dir:",
    ],
)  # fmt: skip
def test_what_is_no_coordinate_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        coordinates.parse(text)


OFFERED = ["1:11.4.1-1", "1:10.11.21-0+deb12u1", "1:10.11.19-0+deb12u1", "1:10.6.3-1"]


@pytest.mark.parametrize(
    ("wanted", "version"), [("1:10.11.19-0+deb12u1", "1:10.11.19-0+deb12u1"), (None, "1:11.4.1-1")]
)
def test_a_debian_version_is_the_named_or_the_newest(wanted: str | None, version: str) -> None:
    found = deb.require_version(Deb("bookworm", "mariadb-server", wanted), OFFERED)
    assert found.version == version


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        ("1:10.11.18-0+deb12u1", OFFERED),
        ("1:10.1.18-1", OFFERED),
        ("9.7.4-2", ["9.7.5-1", "9.6.0-1"]),
        (None, []),
    ],
)
def test_another_debian_version_is_never_taken(wanted: str | None, offered: list[str]) -> None:
    with pytest.raises(NotServed):
        deb.require_version(Deb("bookworm", "mariadb-server", wanted), offered)


def test_distribution_mirror_is_distinguished_from_a_third_party() -> None:
    mirrors = [
        ("http://third.test/linux/debian", "bookworm"),
        ("http://mirror.test/debian", "bookworm"),
        ("http://mirror.test/debian", "bookworm-updates"),
    ]
    assert deb.main_mirror(mirrors, "bookworm") == "http://mirror.test/debian"
    assert deb.main_mirror(mirrors, "noble") is None
    assert (
        deb.security_mirror(mirrors, "bookworm", "http://mirror.test/debian")
        == "http://mirror.test/debian-security"
    )
    mirrors.append(("http://fast.test/security", "bookworm-security"))
    assert (
        deb.security_mirror(mirrors, "bookworm", "http://mirror.test/debian")
        == "http://fast.test/security"
    )


def test_a_missing_package_client_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    cases: list[tuple[str, Callable[[], object]]] = [
        ("mvn", lambda: maven.fetch(Maven("g", "a", "1", "jar"), tmp_path / "m", 1, ignore)),
        ("npm", lambda: npm.fetch(Npm("a", "1"), tmp_path / "n", 1, ignore)),
        ("apt-get", lambda: deb.fetch(Deb("sid", "a"), tmp_path / "r", tmp_path / "d", ignore)),
    ]
    for client, act in cases:
        with pytest.raises(HostError) as caught:
            act()
        assert caught.value.message.startswith(f"{client} is not installed; millrace needs it to ")
        assert "apt install" in str(caught.value.hint)


def test_a_client_gets_no_password_of_millrace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "client"
    script.write_text("#!/bin/sh\nenv\n")
    script.chmod(0o755)
    monkeypatch.setenv("MILLRACE_PASSWORD", "hunter2")
    monkeypatch.setenv("A_SETTING_OF_NPM", "kept")
    environment = clients.run([str(script)], purpose="to test")
    assert "A_SETTING_OF_NPM=kept" in environment
    assert "hunter2" not in environment


def test_a_failing_client_is_quoted(tmp_path: Path) -> None:
    script = tmp_path / "client"
    script.write_text("#!/bin/sh\necho talk >&2\necho '\033[1mE: no such package'\nexit 100\n")
    script.chmod(0o755)
    with pytest.raises(HostError, match=r"to test \(exit status 100\): E: no such package$"):
        clients.run([str(script)], purpose="to test")


@pytest.mark.parametrize(
    ("said", "lasts"),
    [
        ("npm error code E404", True),
        ("[ERROR] Could not find artifact g:a:zip:1 in central (http://mirror.test)", True),
        ("E: Failed to fetch http://mirror.test/a.deb  404  Not Found", True),
        ("npm error code ENOTFOUND", False),
        ("[ERROR] Could not transfer artifact g:a:zip:1: Connect timed out", False),
        ("E: Failed to fetch http://mirror.test/a.deb  Temporary failure resolving", False),
    ],
)
def test_what_is_not_there_lasts(tmp_path: Path, said: str, lasts: bool) -> None:
    script = tmp_path / "client"
    script.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(HostError) as caught:
        clients.run([str(script)], purpose="to test")
    assert isinstance(caught.value, PermanentHostError) == lasts


def test_growth_is_reported_while_a_client_works(tmp_path: Path) -> None:
    emitted: list[Emitted] = []
    (tmp_path / "before").write_bytes(b"x" * 100)
    report = clients.watch_growth(tmp_path, "thing", 50, emitted.append)
    (tmp_path / "new").write_bytes(b"x" * 30)
    report()
    (tmp_path / "more").write_bytes(b"x" * 70)
    report()
    assert emitted == [DownloadMoved("thing", 30, 50), DownloadMoved("thing", 50, 50)]


def test_an_interrupted_client_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "client"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    script.chmod(0o755)

    def interrupt() -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clients.run([str(script)], purpose="to test", watch=interrupt)
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()
