"""Define TLS settings for sessions: the mode, and whether the server may get the password."""

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

    ``message`` continues a sentence that starts with ``key`` and ``value``, such as ``is missing``;
    ``expected`` describes valid values.
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
    """The TLS settings of sessions with a server; the modes are those of MySQL's clients.

    ``required`` accepts any certificate. ``verify-ca`` accepts one signed by an authority in ``ca``
    (a PEM file). ``verify-identity`` also requires that it was issued to the host; without ``ca``,
    it uses the authorities that this host trusts. ``allow_unverified`` permits sending the password
    to an unverified server: as plain text inside unverified TLS, or encrypted with the server's
    public key.
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
    """Return valid TLS settings; raise InvalidTls for an invalid mode or ``ca``."""
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
            "ca", ca, f"has no effect with mode {mode}", f"mode {' or '.join(VERIFYING)}"
        )
    return Tls(mode, Path(ca), allow_unverified)


def default_mode(host: str | None) -> TlsMode:
    """Return the default mode for ``host``: verify-identity unless it is this host."""
    return "disabled" if host is None or is_this_host(host) else "verify-identity"


def is_this_host(host: str) -> bool:
    """Return whether ``host`` is a loopback address or ``localhost``, without name resolution."""
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
            f"{ca}: cannot read CA certificates: {reason}",
            hint="name a PEM file with the certificate of the authority that signed the server's "
            "certificate (for MySQL's own certificates: ca.pem in the data directory)",
        ) from error
