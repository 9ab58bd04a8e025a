"""Test that no unverified server gets the password of an attached server."""

import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from millrace.errors import TrialFailed, UserError
from millrace.loadgen import client
from millrace.loadgen.spec import Connection, ConnectionTls, LoadSpec, Statement
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance
from tests.support.hostile_mysql import HostileServer, Login, answers, serving
from tests.support.talk import Certificates, certificates

PASSWORD = "a password that nobody else has"
SALT = b"saltsaltsaltsaltsalt\x00"
KEY = (
    rsa.generate_private_key(public_exponent=65537, key_size=2048)
    .public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
)
FULL = (b"\x01\x04", b"\x01" + KEY)
WISHES = {
    "in clear": Login(wants=(b"\xfemysql_clear_password\x00",)),
    "by a dialog": Login(wants=(b"\xfedialog\x00\x04Password: ",)),
    "as of old": Login(wants=(b"\xfemysql_old_password\x00" + SALT,)),
    "with its key": Login(plugin=b"caching_sha2_password", wants=FULL),
    "with its key, by a switch": Login(wants=(b"\xfecaching_sha2_password\x00" + SALT, *FULL)),
    "with its key, of sha256": Login(
        plugin=b"sha256_password", wants=(b"\xfesha256_password\x00" + SALT, b"\x01" + KEY)
    ),
}
# The packet with which a client asks for a key.
ASKED_FOR_KEY = (b"\x01", b"\x02")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


def with_tls(login: Login, made: Certificates) -> Login:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    return Login(login.plugin, login.wants, context)


def ask_from_python(server: HostileServer, asked: str, host: str = "127.0.0.1") -> None:
    dsn = f"mysql://root:{PASSWORD.replace(' ', '%20')}@{host}:{server.port}/{asked}"
    AttachedInstance(AttachedServer("theirs", "mysql", dsn)).version()


def ask_from_the_load_generator(server: HostileServer, asked: str, host: str = "127.0.0.1") -> None:
    words = dict(each.split("=") for each in asked.removeprefix("?").split("&") if each)
    ca = Path(words["ca"]) if "ca" in words else None
    connection = Connection(
        "root",
        PASSWORD,
        host=host,
        port=server.port,
        tls=ConnectionTls(words["tls"], ca) if "tls" in words else None,  # type: ignore[arg-type]
        allow_unverified=words.get("allow-unverified") == "yes",
    )
    client.run(LoadSpec(connection, (), (Statement("ask", ("SELECT VERSION()",), 20),)), limit_s=30)


Ask = Callable[..., None]
both = pytest.mark.parametrize("ask", [ask_from_python, ask_from_the_load_generator])


def was_given_away(server: HostileServer) -> bool:
    said = server.logins
    return any(PASSWORD.encode() in each or each in ASKED_FOR_KEY for each in said)


@both
@pytest.mark.parametrize("wish", WISHES)
def test_a_server_that_nothing_verifies_gets_no_password(ask: Ask, wish: str) -> None:
    with serving(answers(b"8.0.33"), WISHES[wish]) as server, pytest.raises(TrialFailed) as caught:
        ask(server, "")
    assert not was_given_away(server)
    assert PASSWORD not in str(caught.value)


@both
@pytest.mark.parametrize("wish", WISHES)
def test_tls_that_verifies_nothing_shows_nothing(ask: Ask, wish: str, made: Certificates) -> None:
    login = with_tls(WISHES[wish], made)
    with serving(answers(b"8.0.33"), login) as server, pytest.raises(TrialFailed):
        ask(server, "?tls=required")
    assert len(server.logins) > 0, "it was encrypted"
    assert not was_given_away(server)


@both
def test_whoever_allows_it_gives_the_password_away(ask: Ask) -> None:
    with serving(answers(b"8.0.33"), WISHES["with its key"]) as server:
        ask(server, "?allow-unverified=yes")
    assert was_given_away(server)


@both
def test_a_verified_server_gets_the_password(ask: Ask, made: Certificates) -> None:
    login = with_tls(Login(b"caching_sha2_password", FULL[:1]), made)
    for mode in ("verify-ca", "verify-identity"):
        with serving(answers(b"8.0.33"), login) as server:
            ask(server, f"?tls={mode}&ca={made.authority}")
        assert was_given_away(server)


@both
@pytest.mark.parametrize("mode", ["verify-ca", "verify-identity"])
def test_a_server_with_a_strangers_certificate_gets_nothing(
    ask: Ask, mode: str, made: Certificates
) -> None:
    login = with_tls(Login(), made)
    with (
        serving(answers(b"8.0.33"), login) as server,
        pytest.raises(TrialFailed, match="name the file of the authority that signed it"),
    ):
        ask(server, f"?tls={mode}&ca={made.stranger}")
    assert server.logins == []


@both
def test_a_server_with_the_certificate_of_another_host_gets_nothing(
    ask: Ask, made: Certificates
) -> None:
    login = with_tls(Login(), made)
    with serving(answers(b"8.0.33"), login) as server:
        with pytest.raises(TrialFailed, match="is made out to another name"):
            ask(server, f"?tls=verify-identity&ca={made.authority}", "localhost")
        assert server.logins == []
        ask(server, f"?tls=verify-ca&ca={made.authority}", "localhost")


@both
@pytest.mark.parametrize("mode", ["required", "verify-ca", "verify-identity"])
def test_a_server_that_has_lost_its_tls_gets_nothing(
    ask: Ask, mode: str, made: Certificates
) -> None:
    ca = "" if mode == "required" else f"&ca={made.authority}"
    with (
        serving(answers(b"8.0.33")) as server,
        pytest.raises(TrialFailed, match=r"certificate \(ssl_cert, ssl_key\)"),
    ):
        ask(server, f"?tls={mode}{ca}")
    assert server.logins == []


def test_a_proof_is_enough_for_most() -> None:
    with serving(answers(b"8.0.33")) as server:
        ask_from_python(server, "")
        ask_from_the_load_generator(server, "")
    assert not was_given_away(server)


def test_login_error_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nacl", None)
    monkeypatch.setattr("pymysql._auth._nacl_bindings", False)
    login = Login(wants=(b"\xfeclient_ed25519\x00" + bytes(range(1, 33)),))
    with (
        serving(answers(b"11.4.2"), login) as server,
        pytest.raises(TrialFailed, match="client_ed25519, which needs the Python package PyNaCl"),
    ):
        ask_from_python(server, "")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("?tls=on", "tls 'on' is not a mode; expected one of disabled, required, verify-ca"),
        ("?tls=required&ca=/ca.pem", "ca '/ca.pem' has no effect with mode required"),
        ("?tls=verify-ca", "ca is missing; expected a path, which verify-ca needs"),
        ("?tls=verify-ca&ca=ca.pem", "ca 'ca.pem' is not an absolute path"),
        ("?allow-unverified=true", "must be yes or no"),
        ("?ssl=1", "unknown parameter 'ssl'"),
    ],
)
def test_an_address_that_is_not_clear_is_refused(asked: str, said: str) -> None:
    server = AttachedServer("theirs", "mysql", f"mysql://me:secret@db.test/{asked}")
    with pytest.raises(UserError, match="invalid address") as caught:
        AttachedInstance(server)
    assert said in caught.value.message
    assert "tls=disabled|required|verify-ca|verify-identity" in str(caught.value.hint)


def test_a_file_that_has_no_authorities_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "none.pem"):
        dsn = f"mysql://me:secret@127.0.0.1:1/?tls=verify-ca&ca={tmp_path / name}"
        with pytest.raises(UserError, match=rf"{name}: cannot read CA certificates"):
            AttachedInstance(AttachedServer("theirs", "mysql", dsn)).version()


@pytest.mark.parametrize(
    ("place", "mode"),
    [
        ("db.test/", "verify-identity"),
        ("192.0.2.1/", "verify-identity"),
        ("127.0.0.1:3307/", "disabled"),
        ("[::1]/", "disabled"),
        ("localhost/", "disabled"),
        ("/?socket=/run/mysqld.sock", "disabled"),
        ("db.test/?tls=disabled", "disabled"),
    ],
)
def test_remote_certificates_are_verified_unless_the_address_disables_it(
    place: str, mode: str
) -> None:
    server = AttachedServer("theirs", "mysql", f"mysql://me:secret@{place}")
    assert AttachedInstance(server).tls.mode == mode
