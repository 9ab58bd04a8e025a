import hashlib
import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from millrace.errors import HostError, UserError
from millrace.model.events import Emitted, Notice, ignore
from millrace.servers.download import Refused, download
from tests.support.small_origin import Origin, serving

PATH = "/file.bin"
CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PAUSES_S = (0.0, 0.0)


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with serving({PATH: CONTENT}) as origin:
        yield origin


def url(origin: Origin) -> str:
    return origin.address + PATH


def ranges(origin: Origin) -> list[str | None]:
    return [asked for _, asked in origin.asked]


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_file_arrives_whole(origin: Origin, tmp_path: Path) -> None:
    download(url(origin), tmp_path / "deep/file.bin", ignore, sha256=SHA256)
    assert (tmp_path / "deep/file.bin").read_bytes() == CONTENT
    assert names(tmp_path / "deep") == {"file.bin"}


def test_a_cut_download_is_continued_where_it_ended(origin: Origin, tmp_path: Path) -> None:
    def cut(request: BaseHTTPRequestHandler, nth: int) -> bool:
        if nth < 3:
            origin.answer(request, cut_after=1000)
        return nth < 3

    origin.behave = cut
    download(url(origin), tmp_path / "file.bin", ignore, sha256=SHA256, pauses_s=PAUSES_S)
    assert ranges(origin) == [None, "bytes=1000-", "bytes=2000-"]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_what_arrived_is_kept_for_the_next_attempt(origin: Origin, tmp_path: Path) -> None:
    def cut(request: BaseHTTPRequestHandler, nth: int) -> bool:
        origin.answer(request, cut_after=1000)
        return True

    origin.behave = cut
    with pytest.raises(HostError, match=r"cut off after 1000 of \d+ bytes"):
        download(url(origin), tmp_path / "file.bin", ignore, sha256=SHA256, pauses_s=())
    assert names(tmp_path) == {"file.bin.part"}
    origin.behave = lambda request, nth: False
    download(url(origin), tmp_path / "file.bin", ignore, sha256=SHA256, pauses_s=())
    assert ranges(origin) == [None, "bytes=1000-"]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_an_origin_without_ranges_starts_over(origin: Origin, tmp_path: Path) -> None:
    origin.knows_ranges = False
    (tmp_path / "file.bin.part").write_bytes(b"older and wrong")
    download(url(origin), tmp_path / "file.bin", ignore, sha256=SHA256)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_part_that_is_whole_is_taken(origin: Origin, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    download(url(origin), tmp_path / "file.bin", ignore, sha256=SHA256)
    assert names(tmp_path) == {"file.bin"}


def test_a_part_that_is_too_long_is_thrown_away(origin: Origin, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    download(url(origin), tmp_path / "file.bin", ignore, sha256=SHA256, pauses_s=PAUSES_S)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_names_all_and_leaves_nothing(origin: Origin, tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        download(url(origin), tmp_path / "file.bin", ignore, sha256="0" * 64)
    assert url(origin) in caught.value.message
    assert "0" * 64 in caught.value.message
    assert SHA256 in caught.value.message
    assert names(tmp_path) == set()


def test_busy_origin_is_retried_and_reported(origin: Origin, tmp_path: Path) -> None:
    emitted: list[Emitted] = []

    def busy(request: BaseHTTPRequestHandler, nth: int) -> bool:
        if nth == 1:
            request.send_error(503)
        return nth == 1

    origin.behave = busy
    download(url(origin), tmp_path / "file.bin", emitted.append, sha256=SHA256, pauses_s=PAUSES_S)
    said = [event.text for event in emitted if isinstance(event, Notice)]
    assert len(said) == 1
    assert "503" in said[0]


def test_missing_resource_is_requested_once(origin: Origin, tmp_path: Path) -> None:
    def missing(request: BaseHTTPRequestHandler, nth: int) -> bool:
        request.send_error(404)
        return True

    origin.behave = missing
    with pytest.raises(Refused, match="404"):
        download(url(origin), tmp_path / "file.bin", ignore, pauses_s=PAUSES_S)
    assert len(origin.asked) == 1


def test_a_certificate_nobody_trusts_is_refused_at_once(origin: Origin, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=127.0.0.1"
        f" -keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    origin.server.socket = context.wrap_socket(origin.server.socket, server_side=True)
    with pytest.raises(Refused, match="certificate"):
        download(url(origin).replace("http:", "https:"), tmp_path / "file.bin", ignore, pauses_s=())
    assert origin.asked == []


def test_other_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only http and https"):
        download("file:///etc/passwd", tmp_path / "file.bin", ignore)
