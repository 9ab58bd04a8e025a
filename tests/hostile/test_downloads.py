"""Test servers of downloads that send too much, or redirect to forbidden addresses."""

import hashlib
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from millrace.errors import HostError, NotServed
from millrace.model.events import ignore
from millrace.servers import web
from millrace.servers.download import Refused, TooLarge, download, require_served
from tests.support.small_origin import Origin, serving

FILE, AWAY, ENDLESS = "/file.bin", "/away", "/endless"
CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ENOUGH = 64 << 20  # bytes of an answer that nobody should read


class Hostile:
    """An origin whose ``/away`` redirects to ``target``, and whose ``/endless`` has no end."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.target = ""
        self.redirect_body = 0
        self.sent = 0
        origin.behave = self._behave

    def _behave(self, request: BaseHTTPRequestHandler, nth: int) -> bool:
        path = request.path.removeprefix("http://public.test").partition("?")[0]
        if path == AWAY:
            request.send_response(302)
            request.send_header("Location", self.target)
            request.end_headers()
            self._send(request, self.redirect_body)
        elif path == ENDLESS:
            request.send_response(200)
            request.end_headers()
            self._send(request, ENOUGH)
        return path in (AWAY, ENDLESS)

    def _send(self, request: BaseHTTPRequestHandler, n_bytes: int) -> None:
        chunk = bytes(1 << 16)
        with suppress(OSError):  # the client has gone
            while self.sent < n_bytes:
                request.wfile.write(chunk)
                self.sent += len(chunk)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.origin.asked]


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    for variable in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    with serving({FILE: CONTENT}) as origin:
        yield Hostile(origin)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "arrived" / "file.bin"


def bring(
    url: str, target: Path, *, sha256: str | None = SHA256, most_bytes: int = len(CONTENT)
) -> None:
    download(url, target, ignore, sha256=sha256, most_bytes=most_bytes, pauses_s=())


def test_download_stops_at_the_size_of_the_catalogue(hostile: Hostile, target: Path) -> None:
    with pytest.raises(TooLarge, match="1,048,576 bytes, but the limit for this file is 1,048,575"):
        bring(hostile.origin.address + FILE, target, most_bytes=len(CONTENT) - 1)
    assert list(target.parent.iterdir()) == []
    bring(hostile.origin.address + FILE, target)
    assert target.read_bytes() == CONTENT


def test_an_answer_without_end_is_left(hostile: Hostile, target: Path) -> None:
    with pytest.raises(TooLarge, match="more than 1,048,576"):
        bring(hostile.origin.address + ENDLESS, target)
    assert list(target.parent.iterdir()) == []
    assert hostile.sent < ENOUGH


def test_what_arrived_earlier_counts(hostile: Hostile, target: Path) -> None:
    target.parent.mkdir()
    part = target.with_name("file.bin.part")
    part.write_bytes(bytes(2 * len(CONTENT)))
    bring(hostile.origin.address + FILE, target)
    part.write_bytes(CONTENT[:1000])
    with pytest.raises(TooLarge):
        bring(hostile.origin.address + FILE, target, most_bytes=2000)


@pytest.mark.parametrize("path", [FILE, ENDLESS])
def test_a_disk_is_not_filled(
    hostile: Hostile, target: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    free_bytes = shutil.disk_usage(target.parents[1]).free
    monkeypatch.setattr("millrace.servers.disk._KEPT_FREE_BYTES", free_bytes + (1 << 40))
    with pytest.raises(HostError, match=r"but only .* are free") as caught:
        bring(hostile.origin.address + path, target)
    assert "MILLRACE_CACHE" in str(caught.value.hint)
    assert target.with_name("file.bin.part").read_bytes() == b""


@pytest.mark.parametrize(
    "there",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1:1/file.bin",
        "data:text/plain,x",
        "http://198.51.100.1/file.bin",  # no checksum
    ],
)
def test_redirect_to_another_resource_is_refused(
    hostile: Hostile, target: Path, there: str
) -> None:
    hostile.target = there
    with pytest.raises(Refused, match=r"redirects|Redirection"):
        bring(hostile.origin.address + AWAY, target, sha256=None)
    assert not target.exists()


def test_a_redirect_that_stays_is_followed(hostile: Hostile, target: Path) -> None:
    hostile.target = hostile.origin.address + FILE
    bring(hostile.origin.address + AWAY, target, sha256=None)
    assert target.read_bytes() == CONTENT
    require_served(hostile.origin.address + FILE)


def test_the_body_of_a_redirect_is_not_read(hostile: Hostile, target: Path) -> None:
    hostile.target, hostile.redirect_body = hostile.origin.address + FILE, ENOUGH
    bring(hostile.origin.address + AWAY, target)
    assert target.read_bytes() == CONTENT
    assert hostile.sent < ENOUGH


def test_redirects_end(hostile: Hostile, target: Path) -> None:
    hostile.target = hostile.origin.address + AWAY
    with pytest.raises(Refused, match="more than 5 times"):
        bring(hostile.origin.address + AWAY, target)
    assert hostile.paths == [AWAY] * 6


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1", "0.0.0.0", "10.0.0.1"],
)
def test_a_public_server_redirects_to_nothing_that_only_this_host_reaches(
    hostile: Hostile, target: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    # The origin is the proxy for the public server; all other requests are direct.
    monkeypatch.setenv("http_proxy", hostile.origin.address)
    monkeypatch.setenv("no_proxy", "127.1")
    hostile.target = f"http://{host}:{hostile.origin.server.server_port}{FILE}"
    for url in (f"http://public.test{AWAY}", f"http://public.test{AWAY}?token=secret"):
        with pytest.raises(Refused, match="redirects from a public address to") as caught:
            bring(url, target)
        assert "secret" not in caught.value.message
    assert not [path for path in hostile.paths if path.endswith(FILE)]
    with pytest.raises(HostError, match="redirects from a public address"):
        require_served(f"http://public.test{AWAY}")


def test_https_stays_https(
    hostile: Hostile, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=here "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = hostile.origin.server
    server.socket = context.wrap_socket(server.socket, server_side=True)
    address = hostile.origin.address.replace("http:", "https:")
    hostile.target = FILE
    bring(address + AWAY, target)
    assert target.read_bytes() == CONTENT
    hostile.target = hostile.origin.address + FILE
    with pytest.raises(Refused, match="redirects from https to http:"):
        bring(address + AWAY, target)


def test_missing_resource_is_reported(hostile: Hostile) -> None:
    with pytest.raises(NotServed):
        require_served(hostile.origin.address + "/none")


@pytest.mark.parametrize("dripping", ["body", "body without a length", "chunk size", "header"])
def test_a_server_that_sends_a_byte_now_and_then_is_left(
    hostile: Hostile, target: Path, monkeypatch: pytest.MonkeyPatch, dripping: str
) -> None:
    monkeypatch.setattr(web, "WINDOW_S", 0.4)
    gone = threading.Event()

    def drip(request: BaseHTTPRequestHandler, _nth: int) -> bool:
        request.protocol_version = "HTTP/1.1"
        if dripping == "header":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        else:
            request.send_response(200)
            if dripping == "chunk size":
                request.send_header("Transfer-Encoding", "chunked")
            elif dripping == "body":
                request.send_header("Content-Length", str(len(CONTENT)))
            request.end_headers()
        with suppress(OSError):
            while True:
                request.wfile.write(b"0")
                request.wfile.flush()
                time.sleep(0.05)
        gone.set()
        return True

    hostile.origin.behave = drip
    with pytest.raises(HostError, match="failed: the transfer is slower than"):
        bring(hostile.origin.address + FILE, target)
    assert gone.wait(60)
    assert not target.exists()


def test_a_server_that_is_fast_enough_is_not_left(
    hostile: Hostile, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "WINDOW_S", 0.2)
    monkeypatch.setattr(web, "LEAST_BYTES", 1)

    def slowly(request: BaseHTTPRequestHandler, _nth: int) -> bool:
        request.send_response(200)
        request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        for begin in range(0, len(CONTENT), 1 << 17):
            request.wfile.write(CONTENT[begin : begin + (1 << 17)])
            request.wfile.flush()
            time.sleep(0.05)
        return True

    hostile.origin.behave = slowly
    bring(hostile.origin.address + FILE, target)
    assert target.read_bytes() == CONTENT
