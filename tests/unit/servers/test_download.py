from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from millrace.errors import HostProblem, UserError
from millrace.servers.download import download
from millrace.servers.progress import Silent

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PAUSES_S = (0.0, 0.0)


class Origin:
    """A web server with one file; ``behave`` may answer a request in another way (True)."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.behave: Callable[[BaseHTTPRequestHandler, int], bool] = lambda request, nth: False
        self.knows_ranges = True
        origin = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                origin.ranges.append(self.headers["Range"])
                if not origin.behave(self, len(origin.ranges)):
                    origin.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/file.bin"

    def answer(self, request: BaseHTTPRequestHandler, *, cut_after: int | None = None) -> None:
        asked = request.headers["Range"]
        begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if asked and self.knows_ranges and begin >= len(CONTENT):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            request.end_headers()
            return
        partial = bool(asked) and self.knows_ranges
        body = CONTENT[begin:] if partial else CONTENT
        request.send_response(206 if partial else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body if cut_after is None else body[:cut_after])


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    origin = Origin()
    thread = threading.Thread(target=origin.server.serve_forever, daemon=True)
    thread.start()
    yield origin
    origin.server.shutdown()
    origin.server.server_close()
    thread.join()


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_file_arrives_whole(origin: Origin, tmp_path: Path) -> None:
    download(origin.url, tmp_path / "deep/file.bin", Silent(), sha256=SHA256)
    assert (tmp_path / "deep/file.bin").read_bytes() == CONTENT
    assert names(tmp_path / "deep") == {"file.bin"}


def test_a_cut_download_is_continued_where_it_ended(origin: Origin, tmp_path: Path) -> None:
    def cut(request: BaseHTTPRequestHandler, nth: int) -> bool:
        if nth < 3:
            origin.answer(request, cut_after=1000)
        return nth < 3

    origin.behave = cut
    download(origin.url, tmp_path / "file.bin", Silent(), sha256=SHA256, pauses_s=PAUSES_S)
    assert origin.ranges == [None, "bytes=1000-", "bytes=2000-"]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_what_arrived_is_kept_for_the_next_attempt(origin: Origin, tmp_path: Path) -> None:
    def cut(request: BaseHTTPRequestHandler, nth: int) -> bool:
        origin.answer(request, cut_after=1000)
        return True

    origin.behave = cut
    with pytest.raises(HostProblem, match=r"cut off after 1000 of \d+ bytes"):
        download(origin.url, tmp_path / "file.bin", Silent(), sha256=SHA256, pauses_s=())
    assert names(tmp_path) == {"file.bin.part"}
    origin.behave = lambda request, nth: False
    download(origin.url, tmp_path / "file.bin", Silent(), sha256=SHA256, pauses_s=())
    assert origin.ranges == [None, "bytes=1000-"]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_an_origin_without_ranges_starts_over(origin: Origin, tmp_path: Path) -> None:
    origin.knows_ranges = False
    (tmp_path / "file.bin.part").write_bytes(b"older and wrong")
    download(origin.url, tmp_path / "file.bin", Silent(), sha256=SHA256)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_part_that_is_whole_is_taken(origin: Origin, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    download(origin.url, tmp_path / "file.bin", Silent(), sha256=SHA256)
    assert names(tmp_path) == {"file.bin"}


def test_a_part_that_is_too_long_is_thrown_away(origin: Origin, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    download(origin.url, tmp_path / "file.bin", Silent(), sha256=SHA256, pauses_s=PAUSES_S)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_names_all_and_leaves_nothing(origin: Origin, tmp_path: Path) -> None:
    with pytest.raises(HostProblem) as caught:
        download(origin.url, tmp_path / "file.bin", Silent(), sha256="0" * 64)
    assert origin.url in caught.value.message
    assert "0" * 64 in caught.value.message
    assert SHA256 in caught.value.message
    assert names(tmp_path) == set()


def test_a_busy_origin_is_asked_again_and_said(origin: Origin, tmp_path: Path) -> None:
    said: list[str] = []

    class Listener(Silent):
        def say(self, text: str) -> None:
            said.append(text)

    def busy(request: BaseHTTPRequestHandler, nth: int) -> bool:
        if nth == 1:
            request.send_error(503)
        return nth == 1

    origin.behave = busy
    download(origin.url, tmp_path / "file.bin", Listener(), sha256=SHA256, pauses_s=PAUSES_S)
    assert len(said) == 1
    assert "503" in said[0]


def test_what_is_not_there_is_asked_once(origin: Origin, tmp_path: Path) -> None:
    def missing(request: BaseHTTPRequestHandler, nth: int) -> bool:
        request.send_error(404)
        return True

    origin.behave = missing
    with pytest.raises(HostProblem, match="404"):
        download(origin.url, tmp_path / "file.bin", Silent(), pauses_s=PAUSES_S)
    assert len(origin.ranges) == 1


def test_other_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only http and https"):
        download("file:///etc/passwd", tmp_path / "file.bin", Silent())
