"""Test logins with every plugin, in clear and with TLS, and refused ones."""

import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from millrace import paths
from millrace.model.events import ignore
from millrace.servers.instances.instance import Instance
from millrace.servers.locks import exclusive
from millrace.servers.sources import deb
from millrace.servers.sources.coordinates import Deb
from millrace.servers.unpack import extract_member
from tests.conftest import InstanceOf
from tests.support.talk import Certificates, converse, refusal, talk

pytestmark = pytest.mark.integration

WHO = [{"sql": "SELECT CURRENT_USER()"}]
OLD, NEW = "mysql-8.0.33", "mysql-9.7.4"
MARIADB = "mariadb-10.11.19"
PLUGIN = "usr/lib/mysql/plugin/auth_ed25519.so"

SharedInstance = Callable[[str], Instance]


@pytest.fixture(scope="module")
def shared(instance_of: InstanceOf, certificates: Certificates) -> Iterator[SharedInstance]:
    """Return servers by name, with certificates and room for large answers.

    Each is started once: every test makes accounts and databases of its own.
    """
    started: dict[str, Instance] = {}
    with ExitStack() as stack:

        def of(name: str) -> Instance:
            if name not in started:
                options = {"max_allowed_packet": "64M", **certificates.options}
                started[name] = stack.enter_context(instance_of(name, **options))
            return started[name]

        yield of


def change(instance: Instance, *statements: str) -> None:
    with closing(instance.connect()) as session:
        for sql in statements:
            session.query(sql)


@pytest.mark.parametrize("name", [OLD, NEW])
def test_caching_sha2_in_full_and_from_the_cache_by_every_way(
    shared: SharedInstance, program: Path, certificates: Certificates, name: str
) -> None:
    account: dict[str, Any] = {"user": "me", "password": "pässwörd"}
    encrypted: dict[str, Any] = {"tls": "verify-ca", "ca": str(certificates.authority)}
    ways: list[dict[str, Any]] = [
        {"tcp": False},
        {"tcp": True, "allow_unverified": True},
        {"tcp": True, "allow_unverified": True, "tls": "required"},
        {"tcp": True, **encrypted},
        {"tcp": False, **encrypted},
    ]
    instance = shared(name)
    change(instance, "CREATE USER me IDENTIFIED WITH caching_sha2_password BY 'pässwörd'")
    for way in ways:
        # Changing a password clears its cache entry: the next login is a full one.
        change(instance, "ALTER USER me IDENTIFIED BY 'pässwörd'")
        for _ in ("in full", "from the cache"):
            said = talk(program, instance, WHO, **{**way, **account})
            assert said.refused is None, said.refused
            assert said.waited[0]["rows"] == [["me@%"]]
        wrong = talk(program, instance, **{**way, **account, "password": "wrong"})
        assert refusal(wrong).startswith("1045 28000")


@pytest.mark.parametrize("tls", ["disabled", "required"])
def test_a_server_that_nothing_verifies_gets_a_proof_and_no_password(
    shared: SharedInstance, program: Path, tls: str
) -> None:
    instance = shared(OLD)
    change(
        instance,
        "CREATE USER IF NOT EXISTS shy IDENTIFIED WITH caching_sha2_password BY 'secret'",
        "ALTER USER shy IDENTIFIED BY 'secret'",
    )
    way: dict[str, Any] = {"tcp": True, "tls": tls, "user": "shy", "password": "secret"}
    unverified = {**way, "allow_unverified": False}
    assert "nothing shows that it is the right server" in refusal(
        talk(program, instance, WHO, **unverified)
    )
    assert talk(program, instance, WHO, **way, allow_unverified=True).refused is None
    assert talk(program, instance, WHO, **unverified).refused is None, "a proof is enough now"


@pytest.mark.parametrize("name", [OLD, "mysql-5.6.24"])
def test_an_account_with_a_plugin_we_do_not_know(
    shared: SharedInstance, program: Path, name: str
) -> None:
    instance = shared(name)
    change(instance, "CREATE USER other IDENTIFIED WITH sha256_password")
    words = refusal(talk(program, instance, tcp=True, user="other"))
    assert "the account uses sha256_password" in words
    assert "mysql_native_password, caching_sha2_password, client_ed25519" in words


def test_too_many_connections(instance_of: InstanceOf, program: Path) -> None:
    with instance_of(MARIADB, max_connections="10") as instance, ExitStack() as stack:
        change(instance, "CREATE USER me IDENTIFIED BY 'me'")
        for _ in range(11):  # one more is reserved for an administrator
            stack.enter_context(closing(instance.connect()))
        words = refusal(talk(program, instance, user="me", password="me"))
        assert words.startswith("1040 ")
        assert "Too many connections" in words


@pytest.mark.parametrize("name", [OLD, MARIADB])
def test_what_tls_verifies(
    shared: SharedInstance, program: Path, certificates: Certificates, name: str
) -> None:
    authority, stranger = str(certificates.authority), str(certificates.stranger)
    instance = shared(name)

    def words(mode: str, ca: str | None, host: str = "127.0.0.1") -> str | None:
        said = talk(program, instance, WHO, tcp=True, host=host, tls=mode, ca=ca)
        return refusal(said) if said.refused is not None else None

    assert words("required", None) is None
    assert words("verify-ca", authority) is None
    assert words("verify-identity", authority) is None
    assert "name the file of the authority" in (words("verify-ca", stranger) or "")
    assert "name the file of the authority" in (words("verify-identity", stranger) or "")
    # Reachable, but not the name in the certificate.
    assert words("verify-ca", authority, host="localhost") is None
    assert "made out to another name" in (words("verify-identity", authority, "localhost") or "")


def test_the_certificate_that_mysql_makes_for_itself(
    instance_of: InstanceOf, program: Path
) -> None:
    with instance_of(NEW) as instance:
        for mode in ("required", "verify-ca"):
            ca = str(instance.data_dir / "ca.pem")
            said = talk(program, instance, WHO, tcp=True, tls=mode, ca=ca)
            assert said.refused is None, said.refused


@pytest.mark.parametrize("name", ["mysql-5.6.24", OLD, MARIADB])
def test_large_answers_through_small_reads(
    shared: SharedInstance, program: Path, name: str
) -> None:
    """Read packets of 16 MB and more, and many rows, cut anywhere, in clear and with TLS."""
    large = "SELECT REPEAT('x', 16777215 - 4), 1 UNION ALL SELECT REPEAT('y', 40000000), 2"
    many = "SELECT id, c FROM d.many"
    statements: list[dict[str, Any]] = [
        {"sql": large, "lengths": True},
        {"sql": many},
        {"sql": many, "parameters": []},
    ]
    # In 5.6 the first part of a union decides the width of the result.
    longest = 16_777_215 if name == "mysql-5.6.24" else 40_000_000
    instance = shared(name)
    change(
        instance,
        "CREATE DATABASE d",
        "CREATE TABLE d.many (id INT AUTO_INCREMENT PRIMARY KEY, c VARCHAR(400))",
        "INSERT INTO d.many (c) VALUES (REPEAT('a', 1)), (REPEAT('b', 400))",
        *["INSERT INTO d.many (c) SELECT c FROM d.many"] * 13,
    )
    ways: list[dict[str, Any]] = [{"tcp": False}, {"tcp": True}]
    if name != "mysql-5.6.24":
        ways.append({"tcp": True, "tls": "required"})
    said = [
        talk(program, instance, statements, read_bytes=read_bytes, **way)
        for way in ways
        for read_bytes in (777, 1 << 20)
    ]
    for each in said:
        assert each.refused is None, each.refused
        assert each.waited[0]["rows"] == [[16_777_211, 1], [longest, 1]]
        assert [end["rows"] for end in each.followed] == [2, 2**14, 2**14]
        assert [end["bytes"] for end in each.followed] == [end["bytes"] for end in said[0].followed]


@pytest.fixture(scope="session")
def ed25519_plugin() -> Path:
    """Return MariaDB's server plugin, which Debian packages separately."""
    place = paths.cache_dir() / "test-plugins" / MARIADB
    plugin = place / "auth_ed25519.so"
    place.mkdir(parents=True, exist_ok=True)
    with exclusive(place / "lock", "the plugin", ignore):
        if not plugin.exists():
            wanted = Deb("bookworm-security", "mariadb-server", "1:10.11.19-0+deb12u1")
            with tempfile.TemporaryDirectory() as workspace:
                root = Path(workspace)
                packages = deb.fetch(wanted, root / "apt", root / "archives", ignore)
                extract_member(packages.main, PLUGIN, place)
    return plugin


@contextmanager
def plugin_dir(plugin: Path) -> Iterator[Path]:
    """Return a plugin directory that an unprivileged server can read."""
    place = Path(tempfile.mkdtemp(prefix="mr-plugin-", dir="/tmp"))
    try:
        place.chmod(0o755)
        shutil.copy(plugin, place)
        yield place
    finally:
        shutil.rmtree(place)


def test_ed25519_as_mariadb_does_it(
    instance_of: InstanceOf, program: Path, ed25519_plugin: Path
) -> None:
    with (
        plugin_dir(ed25519_plugin) as place,
        instance_of(MARIADB, plugin_dir=str(place)) as instance,
    ):
        change(instance, "INSTALL SONAME 'auth_ed25519'")
        for password in ("secret", "pässwörd", "x" * 100):
            change(
                instance,
                f"CREATE OR REPLACE USER me IDENTIFIED VIA ed25519 USING PASSWORD('{password}')",
            )
            for tcp in (False, True):
                said = talk(program, instance, WHO, tcp=tcp, user="me", password=password)
                assert said.refused is None, said.refused
                assert said.waited[0]["rows"] == [["me@%"]]
                wrong = talk(program, instance, tcp=tcp, user="me", password=f"{password}x")
                assert refusal(wrong).startswith("1045 28000")


BAD_GREETINGS = {
    b"SSH-2.0-OpenSSH_9.2p1\r\n": "not the MySQL protocol",
    b"HTTP/1.1 400 Bad Request\r\n": "not the MySQL protocol",
    b"\x04\x00\x00\x00\x0a5.7": "a packet ends in the middle of its connection id",
    b"\x03\x00\x00\x05\x0a5\x00": "packet 5 came where packet 0 was due",
    b"\xff\xff\xff\x00" + b"x" * 100: "a message of more than 65536 bytes came",
    b"\x10\x00\x00\x00\x0a5.7": "it closed it in the middle of a packet",
    b"": "it closed it",
    b"\x17\x00\x00\x00\xff\x10\x04Too many connections": "Too many connections",
}


@pytest.mark.parametrize("greeting", BAD_GREETINGS)
def test_what_is_no_server_ends_with_a_clear_error(program: Path, greeting: bytes) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def answer() -> None:
            other, _address = listener.accept()
            with closing(other):
                other.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        said = converse(
            program, {"host": "127.0.0.1", "port": port, "user": "me", "password": "secret"}
        )
        thread.join()
    assert BAD_GREETINGS[greeting] in refusal(said)
