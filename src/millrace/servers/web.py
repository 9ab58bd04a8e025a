"""Open HTTP(S) addresses, and follow only safe redirects.

urllib alone follows redirects from HTTPS to HTTP and FTP, and to services that only this host or
its network reaches, and reads the whole body of a redirect, whatever its length.
"""

import http.client
import ipaddress
import urllib.request
from dataclasses import dataclass
from functools import partial
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from millrace.tls import is_this_host

MOST_REDIRECTS = 5

# The closeness of an address. A redirect may not lead closer than its first address.
_PUBLIC, _PRIVATE, _THIS_HOST = range(3)
_CLOSENESS = ("a public address", "an address of a private network", "an address of this host")


class RedirectRefused(Exception):
    """An unsafe redirect; the message says where it leads, and why it is refused."""


def open_address(
    request: urllib.request.Request, *, timeout_s: float, is_verified: bool
) -> http.client.HTTPResponse:
    """Send ``request`` to an HTTP or HTTPS address, and return the answer.

    ``is_verified`` says that a checksum verifies the content, so that plain HTTP may transfer it
    from another host. Raise RedirectRefused, and the errors of urllib.
    """
    journey = _Journey(_closeness_by_name(request.full_url), is_verified)
    opener = urllib.request.build_opener(_Redirects(journey), _Checked(journey))
    answer: http.client.HTTPResponse = opener.open(request, timeout=timeout_s)
    return answer


def without_secrets(url: str) -> str:
    """Return an address without user, password, query and fragment, which may contain tokens."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@dataclass
class _Journey:
    """The requests for one answer; ``closeness`` is that of the first server."""

    closeness: int
    is_verified: bool
    n_redirects: int = 0

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
                f"it redirects to {without_secrets(newurl)}, and no checksum verifies what comes "
                "over plain HTTP"
            )
        journey.check(newurl, _closeness_by_name(newurl))
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None:
            request.method = req.get_method()
        return request


class _Connection(http.client.HTTPConnection):
    """A connection whose peer is checked before a request or a handshake."""

    journey: _Journey
    url: str

    def connect(self) -> None:
        super().connect()
        self.journey.arrive(self.url, self.sock.getpeername()[0])


class _TlsConnection(http.client.HTTPSConnection, _Connection):
    pass


class _Checked(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Open connections that check their peers; where a proxy connects, it alone sees the peer."""

    def __init__(self, journey: _Journey) -> None:
        super().__init__()
        self._journey = journey

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(req, http.client.HTTPConnection, _Connection)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(req, http.client.HTTPSConnection, _TlsConnection)

    def _open(
        self,
        req: urllib.request.Request,
        to_proxy: type[http.client.HTTPConnection],
        checked: type[_Connection],
    ) -> http.client.HTTPResponse:
        if req.host != urlsplit(req.full_url).netloc:  # a proxy connects
            return self.do_open(to_proxy, req)
        return self.do_open(partial(_connection, checked, self._journey, req.full_url), req)


def _connection(
    kind: type[_Connection], journey: _Journey, url: str, /, host: str, **options: Any
) -> _Connection:
    made = kind(host, **options)
    made.journey, made.url = journey, url
    return made


def _closeness_by_name(url: str) -> int:
    host = urlsplit(url).hostname or ""
    return _THIS_HOST if is_this_host(host) else _closeness(host)


def _closeness(address: str) -> int:
    """Return the closeness of an IP address; a name counts as public until it is resolved."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return _PUBLIC
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback or ip.is_link_local or ip.is_unspecified:
        return _THIS_HOST
    return _PUBLIC if ip.is_global else _PRIVATE
