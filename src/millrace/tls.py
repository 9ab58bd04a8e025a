"""Describe TLS with a server: the requested mode, and whether it may receive the password."""

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from millrace.errors import UserError

TlsMode = Literal["disabled", "required", "verify-ca", "verify-identity"]
MODES: tuple[TlsMode, ...] = get_args(TlsMode)
VERIFYING: tuple[TlsMode, ...] = ("verify-ca", "verify-identity")


class InvalidTls(ValueError):
    """An invalid TLS setting.

    ``key`` is mode or ca, ``value`` its value; ``message`` continues a sentence after the value.
    """

    def __init__(
        self, key: Literal["mode", "ca"], value: object, message: str, expected: str
    ) -> None:
        super().__init__(message)
        self.key = key
        self.value = value
        self.message = message
        self.expected = expected


@dataclass(frozen=True)
class Tls:
    """The encryption of sessions with a server, in the terms of MySQL's own clients.

    ``required`` accepts any certificate, ``verify-ca`` one signed by an authority in ``ca`` (a PEM
    file), ``verify-identity`` one that is also issued to the host; without ``ca`` it uses the
    authorities that this host trusts. ``allow_unverified`` sends the password itself to an
    unverified server: in clear inside unverified TLS, or encrypted with a key that the server
    sends.
    """

    mode: TlsMode = "disabled"
    ca: Path | None = None
    allow_unverified: bool = False

    @property
    def verifies(self) -> bool:
        return self.mode in VERIFYING

    def context(self) -> ssl.SSLContext | None:
        """Return a session's TLS context, None without TLS; UserError for an unusable ``ca``."""
        if self.mode == "disabled":
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.mode == "verify-identity"
        context.verify_mode = ssl.CERT_REQUIRED if self.verifies else ssl.CERT_NONE
        if self.verifies:
            _trust(context, self.ca)
        return context


def tls_settings(mode: object, ca: object, *, allow_unverified: bool) -> Tls:
    """Return requested TLS settings; InvalidTls for no mode, and a missing or unused ``ca``."""
    if mode not in MODES:
        message = "is missing" if mode is None else "is not a mode"
        raise InvalidTls("mode", mode, message, f"one of {', '.join(MODES)}")
    if ca is None:
        if mode == "verify-ca":
            raise InvalidTls(
                "ca", ca, "is missing", f"a path, which {mode} needs (or mode verify-identity)"
            )
        return Tls(mode, None, allow_unverified)
    if not isinstance(ca, str) or not Path(ca).is_absolute():
        raise InvalidTls("ca", ca, "is not an absolute path", "a path that begins with /")
    if mode not in VERIFYING:
        raise InvalidTls(
            "ca", ca, f"verifies nothing with mode {mode}", f"mode {' or '.join(VERIFYING)}"
        )
    return Tls(mode, Path(ca), allow_unverified)


def default_mode(host: str | None) -> TlsMode:
    """Return the mode for an address that names none: remote hosts are verified."""
    return "disabled" if host is None or is_this_host(host) else "verify-identity"


def is_this_host(host: str) -> bool:
    """Return whether data sent to ``host`` stays on this host, whatever a resolver answers."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _trust(context: ssl.SSLContext, ca: Path | None) -> None:
    if ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(
            f"{ca} cannot be read as certificates of authorities: {reason}",
            hint="name a file in PEM form with the certificate of the authority that signed "
            "the server's (of MySQL's own certificates it is ca.pem in the data directory)",
        ) from error
