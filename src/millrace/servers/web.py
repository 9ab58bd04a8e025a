"""Open HTTP(S) URLs, follow only safe redirects, and abort transfers that are too slow.

urllib alone follows redirects from HTTPS to HTTP and FTP, and to services that only this host or
its network can reach. It reads the whole body of a redirect, of any length. Its timeout applies to
each wait, so a server that sends one byte a second would never time out.
"""

import contextlib
import http.client
import ipaddress
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Self
from urllib.parse import urlsplit, urlunsplit

from millrace.tls import is_this_host

MOST_REDIRECTS = 5
WINDOW_S = 60.0
LEAST_BYTES = 256 << 10  # in a window
_MOST_WINDOWS = 24 * 60
_PIECE_BYTES = 1 << 18

# The closeness of an address. A redirect must not lead closer than the first address.
_PUBLIC, _PRIVATE, _THIS_HOST = range(3)
_CLOSENESS = ("a public address", "an address of a private network", "an address of this host")


class RedirectRefused(Exception):
    """An unsafe redirect; the message has its target and the reason."""


class Answer:
    """A response whose body is read piece by piece."""

    def __init__(self, response: http.client.HTTPResponse, refuse_slow: Callable[[], None]) -> None:
        self.status = response.status
        self.length = response.length  # of the body; None if the server does not report it
        self.received_bytes = 0
        self._response = response
        self._refuse_slow = refuse_slow

    def read(self) -> bytes:
        """Return the next bytes that arrived, empty at the end. Raise the errors of urllib."""
        piece = self._response.read1(_PIECE_BYTES)
        self.received_bytes += len(piece)
        if not piece:
            self._refuse_slow()
        return piece


@contextlib.contextmanager
def open_address(
    request: urllib.request.Request, *, timeout_s: float, is_verified: bool
) -> Iterator[Answer]:
    """Send ``request`` to an HTTP or HTTPS URL, and yield the response.

    ``is_verified``: the content has a checksum, so plain HTTP from another host is acceptable.
    Raise RedirectRefused, and the errors of urllib; TimeoutError also for a server that sends too
    little in a minute.
    """
    journey = _Journey(_closeness_by_name(request.full_url), is_verified)
    opener = urllib.request.build_opener(_Redirects(journey), _Checked(journey))
    with _Watch(journey) as watch:
        try:
            with opener.open(request, timeout=timeout_s) as response:
                watch.answer = Answer(response, watch.refuse_slow)
                yield watch.answer
        except (OSError, http.client.HTTPException):
            watch.refuse_slow()
            raise


def without_secrets(url: str) -> str:
    """Return a URL without user, password, query and fragment, which may contain secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@dataclass
class _Journey:
    """A request and its redirects; ``closeness`` is that of the first server."""

    closeness: int
    is_verified: bool
    n_redirects: int = 0
    # Sockets by which another thread can end the connections.
    connections: list[socket.socket] = field(default_factory=list)

    def check(self, url: str, closeness: int) -> None:
        if closeness > self.closeness:
            raise RedirectRefused(
                f"it redirects from {_CLOSENESS[self.closeness]} to {_CLOSENESS[closeness]}, "
                f"{without_secrets(url)}"
            )

    def arrive(self, url: str, address: str) -> None:
        """Check the address of a new connection before anything is sent there."""
        closeness = _closeness(address)
        if self.n_redirects == 0:
            self.closeness = closeness
        else:
            self.check(url, closeness)


class _Watch(threading.Thread):
    """A thread that ends the connections of a journey whose server sends too little.

    Until the answer has begun, that is anything but the answer's beginning.
    """

    def __init__(self, journey: _Journey) -> None:
        super().__init__(name="watch", daemon=True)
        self.answer: Answer | None = None
        self._journey = journey
        self._is_slow = False
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        for connection in self._journey.connections:
            connection.close()

    def run(self) -> None:
        before = 0
        windows = 0
        while not self._over.wait(WINDOW_S):
            windows += 1
            received = 0 if self.answer is None else self.answer.received_bytes
            if received - before < LEAST_BYTES or windows > _MOST_WINDOWS:
                self._is_slow = True
                for connection in self._journey.connections:
                    with contextlib.suppress(OSError):  # it has ended
                        connection.shutdown(socket.SHUT_RDWR)
                return
            before = received

    def refuse_slow(self) -> None:
        if self._is_slow:
            raise TimeoutError(
                f"the transfer is slower than {LEAST_BYTES >> 10} KiB in {WINDOW_S:g} s, or takes "
                "longer than a day"
            )


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_repeats = max_redirections = MOST_REDIRECTS + 1  # ``redirect_request`` counts instead

    def __init__(self, journey: _Journey) -> None:
        self._journey = journey

    def redirect_request(  # noqa: PLR0917 - as urllib calls it
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        fp.close()  # otherwise urllib would read all of it
        journey = self._journey
        journey.n_redirects += 1
        if journey.n_redirects > MOST_REDIRECTS:
            raise RedirectRefused(f"it redirects more than {MOST_REDIRECTS} times")
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if after.scheme not in ("http", "https") or (before.scheme, after.scheme) == (
            "https",
            "http",
        ):
            raise RedirectRefused(f"it redirects from {before.scheme} to {without_secrets(newurl)}")
        if after.scheme == "http" and not (
            journey.is_verified or is_this_host(after.hostname or "")
        ):
            raise RedirectRefused(
                f"it redirects to {without_secrets(newurl)}: plain HTTP is not safe without a "
                "checksum"
            )
        journey.check(newurl, _closeness_by_name(newurl))
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None:
            request.method = req.get_method()
        return request


class _Connection(http.client.HTTPConnection):
    """A connection whose peer is checked before anything is sent, unless that is a proxy."""

    journey: _Journey
    url: str
    by_proxy: bool

    def connect(self) -> None:
        super().connect()
        self.journey.connections.append(self.sock.dup())
        if not self.by_proxy:
            self.journey.arrive(self.url, self.sock.getpeername()[0])


class _TlsConnection(http.client.HTTPSConnection, _Connection):
    pass


class _Checked(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Open connections that check their peers; where a proxy connects, it alone sees the peer."""

    def __init__(self, journey: _Journey) -> None:
        super().__init__()
        self._journey = journey

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(req, _Connection)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(req, _TlsConnection)

    def _open(
        self, req: urllib.request.Request, kind: type[_Connection]
    ) -> http.client.HTTPResponse:
        def connection(host: str, **options: Any) -> _Connection:
            made = kind(host, **options)
            made.journey, made.url = self._journey, req.full_url
            made.by_proxy = req.host != urlsplit(req.full_url).netloc
            return made

        return self.do_open(connection, req)


def _closeness_by_name(url: str) -> int:
    host = urlsplit(url).hostname or ""
    return _THIS_HOST if is_this_host(host) else _closeness(host)


def _closeness(address: str) -> int:
    """Return the closeness of an IP address; an unresolved name counts as public."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return _PUBLIC
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback or ip.is_link_local or ip.is_unspecified:
        return _THIS_HOST
    return _PUBLIC if ip.is_global else _PRIVATE
