"""Query a server that somebody else runs, without starting, stopping or configuring it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit, urlunsplit

from millrace import databases
from millrace.databases.base import ServerClient
from millrace.databases.client import Address, Session
from millrace.errors import DatabaseError, TrialFailed, UserError
from millrace.model.servers import AttachedServer
from millrace.tls import MODES, InvalidTls, Tls, default_mode, is_this_host, tls_settings

_FORM = (
    "{0}://user[:password]@host:port/ or {0}://user[:password]@/?socket=PATH, with "
    f"tls={'|'.join(MODES)}, ca=PATH and allow-unverified=yes among what follows the ?"
)
_KEYS = ("socket", "tls", "ca", "allow-unverified")

_ALWAYS_LIMITED = (
    "its options, engine defaults and page size cannot be set: only the default configuration fits",
    "it cannot be started, stopped or given a fresh data directory: caches and earlier work remain",
    "load from other clients cannot be excluded",
    "its program, compiler, allocator and libraries are unknown",
    "its process, CPU use and error log cannot be observed",
    "its data directory is not accessible: sizes on disk are unknown",
)


class AttachedInstance(ServerClient):
    """A client of a server that somebody else runs; ``limits`` says what cannot be controlled."""

    def __init__(self, server: AttachedServer) -> None:
        super().__init__(server, databases.get(server.family), parse_dsn(server))
        self.user = self._address.user
        self.password = self._address.password
        self.host = self._address.host
        self.socket = self._address.socket
        self.tls = self._address.tls
        self.limits = _limits(self._address)

    def connect(self, database: str | None = None, *, limit_s: float | None = None) -> Session:
        """Open a session as the base class does; raise TrialFailed with the server and address."""
        try:
            return super().connect(database, limit_s=limit_s)
        except DatabaseError as error:
            raise TrialFailed(
                f"{self.server.name}: no session at {self._address.text}: {error.message}",
                hint="check that the server runs, and that its address and account are correct",
            ) from error


def parse_dsn(server: AttachedServer) -> Address:
    """Return the address in ``server.dsn``. Raise UserError, which never quotes the password."""
    try:
        parts = urlsplit(server.dsn)
        port = parts.port
    except ValueError as error:
        raise _bad_dsn(server, "invalid host or port") from error
    asked = _asked(server, parts.query)
    socket = _socket(server, asked)
    family = databases.get(server.family)
    if parts.scheme != family.scheme:
        raise _bad_dsn(server, f"it does not start with {family.scheme}://")
    if not parts.username:
        raise _bad_dsn(server, "the user is missing")
    if socket is None and not parts.hostname:
        raise _bad_dsn(server, "the host or socket is missing")
    if parts.path not in ("", "/"):
        raise _bad_dsn(server, "it names a database, but millrace creates its own")
    return Address(
        server=server.name,
        user=unquote(parts.username),
        password=unquote(parts.password or ""),
        host=parts.hostname or "127.0.0.1",
        port=port or family.port,
        socket=socket,
        tls=_tls(server, asked, None if socket is not None else parts.hostname),
    )


def lacks_password(server: AttachedServer) -> bool:
    """Return whether ``server.dsn`` has no password, not even an empty one. Raise UserError."""
    parse_dsn(server)
    return urlsplit(server.dsn).password is None


def with_password(server: AttachedServer, password: str) -> AttachedServer:
    """Return the server with the password in its address. Raise UserError if it is not UTF-8."""
    try:
        quoted = quote(password, safe="")
    except UnicodeEncodeError:
        raise UserError(f"{server.name}: the password is not valid UTF-8") from None
    parts = urlsplit(server.dsn)
    user, _, place = parts.netloc.rpartition("@")
    return replace(server, dsn=urlunsplit(parts._replace(netloc=f"{user}:{quoted}@{place}")))


def with_tls(server: AttachedServer, tls: Tls) -> AttachedServer:
    """Return the server with other TLS settings in its address."""
    parts = urlsplit(server.dsn)
    asked = dict(_asked(server, parts.query))
    asked.pop("ca", None)
    asked |= {"tls": tls.mode, "allow-unverified": "yes" if tls.allow_unverified else "no"}
    if tls.ca is not None:
        asked["ca"] = str(tls.ca)
    return replace(server, dsn=urlunsplit(parts._replace(query=urlencode(asked))))


def _asked(server: AttachedServer, query: str) -> Mapping[str, str]:
    """Return the parameters after the ? of an address, by key."""
    asked = parse_qs(query, keep_blank_values=True)
    unknown = sorted(set(asked) - set(_KEYS))
    if unknown:
        raise _bad_dsn(server, f"unknown parameter {unknown[0]!r}")
    return {key: values[-1] for key, values in asked.items()}


def _socket(server: AttachedServer, asked: Mapping[str, str]) -> Path | None:
    if "socket" not in asked:
        return None
    path = Path(asked["socket"])
    if not path.is_absolute():
        raise _bad_dsn(server, "socket must be an absolute path")
    return path


def _tls(server: AttachedServer, asked: Mapping[str, str], host: str | None) -> Tls:
    allowed = asked.get("allow-unverified", "no")
    if allowed not in ("yes", "no"):
        raise _bad_dsn(server, f"allow-unverified must be yes or no, not {allowed!r}")
    mode = asked.get("tls", default_mode(host))
    try:
        return tls_settings(mode, asked.get("ca"), allow_unverified=allowed == "yes")
    except InvalidTls as wrong:
        key = "tls" if wrong.key == "mode" else wrong.key
        said = wrong.message if wrong.value is None else f"{wrong.value!r} {wrong.message}"
        raise _bad_dsn(server, f"{key} {said}; expected {wrong.expected}") from None


def _bad_dsn(server: AttachedServer, why: str) -> UserError:
    form = _FORM.format(databases.get(server.family).scheme)
    return UserError(f"{server.name}: invalid address: {why}", hint=f"write {form}")


def _limits(address: Address) -> tuple[str, ...]:
    if address.socket is not None or is_this_host(address.host):
        return _ALWAYS_LIMITED
    return (
        *_ALWAYS_LIMITED,
        "it is reached through a network, whose latency and load are measured too",
    )
