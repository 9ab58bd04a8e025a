"""Drive the load generator's client (its example `talk`), and make certificates for TLS."""

import datetime
import ipaddress
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from millrace.servers.instances.instance import Instance

ROOT = Path(__file__).parents[2]
LIMIT_S = 120


@dataclass(frozen=True)
class Said:
    """The result of one conversation.

    ``waited`` has the outcome of each statement on a connection that waits, ``followed`` the hot
    path's counts of its answer; ``refused`` is the error that ended the conversation early.
    """

    version: str | None
    waited: tuple[dict[str, Any], ...]
    followed: tuple[dict[str, Any], ...]
    refused: dict[str, Any] | None


def build() -> Path:
    """Build the program and return its path."""
    command = ["cargo", "build", "--quiet", "--locked", "--package", "millrace-load"]
    done = subprocess.run(
        [*command, "--example", "talk", "--message-format=json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    messages = (json.loads(line) for line in done.stdout.splitlines())
    programs = [each["executable"] for each in messages if each.get("executable")]
    return Path(programs[-1])


def talk(
    program: Path,
    instance: Instance,
    statements: Sequence[dict[str, Any]] = (),
    *,
    tcp: bool = False,
    **more: Any,
) -> Said:
    """Log in and run statements, each in both ways; ``more`` are further keys of the request.

    The server is our own.
    """
    where = (
        {"host": "127.0.0.1", "port": instance.port} if tcp else {"socket": str(instance.socket)}
    )
    login = {"user": instance.user, "password": instance.password, "allow_unverified": True}
    return converse(program, {**login, **where, "statements": list(statements), **more})


def converse(program: Path, request: dict[str, Any]) -> Said:
    """Pass the program a request unchanged."""
    done = subprocess.run(
        [program],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert not done.stderr, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    refused = lines.pop() if done.returncode != 0 else None
    version = lines.pop(0)["version"] if lines else None
    n_waited = min(len(lines), len(request.get("statements", ())))
    return Said(version, tuple(lines[:n_waited]), tuple(lines[n_waited:]), refused)


def refusal(said: Said) -> str:
    """Return the message that ended a conversation before its first statement."""
    assert said.refused is not None
    assert not said.waited
    words = said.refused["error"]
    return words if isinstance(words, str) else " ".join(map(str, words))


@dataclass(frozen=True)
class Certificates:
    """PEM files: an authority, another that signed nothing, a server's certificate and its key."""

    authority: Path
    stranger: Path
    certificate: Path
    key: Path

    @property
    def options(self) -> dict[str, str]:
        """Return the options for a server; those built without TLS know no such options."""
        return {
            "loose_ssl_ca": str(self.authority),
            "loose_ssl_cert": str(self.certificate),
            "loose_ssl_key": str(self.key),
        }


def certificates(place: Path) -> Certificates:
    """Make certificates; the server's is valid for 127.0.0.1 and a name that is not this host's."""
    name = "elsewhere.test"
    made = Certificates(
        place / "ca.pem", place / "stranger.pem", place / "server.pem", place / "server-key.pem"
    )
    authority_key, authority = _authority("authority")
    _key, stranger = _authority("stranger")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    names: list[x509.GeneralName] = [
        x509.DNSName(name),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    certificate = (
        _builder(name, authority.subject, key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    made.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,  # the only format that yaSSL reads
            serialization.NoEncryption(),
        )
    )
    for file, each in (
        (made.authority, authority),
        (made.stranger, stranger),
        (made.certificate, certificate),
    ):
        file.write_bytes(each.public_bytes(serialization.Encoding.PEM))
    for file in place.iterdir():
        file.chmod(0o644)  # the server runs as another user
    return made


def _authority(name: str) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(name, subject, key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return key, builder.sign(key, hashes.SHA256())


def _builder(name: str, issuer: x509.Name, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
