"""Download one file over HTTP(S), with resumption, proxy variables, and retries.

A file must not be larger than the catalogue says, and some of the disk must stay free.

A partial download is called ``NAME.part``. The file gets its name when it is complete and matches
the checksum, if known. The next attempt resumes an interrupted download; a wrong file is removed.
"""

import http.client
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from millrace.errors import HostError, NotServed, PermanentHostError, UserError
from millrace.model.events import DownloadMoved, Notice, OnEvent
from millrace.servers import disk
from millrace.servers.provenance import file_sha256
from millrace.servers.web import Answer, RedirectRefused, open_address, without_secrets

_TIMEOUT_S = 60
MOST_BYTES = 8 << 30
"""The limit for a file of unknown size: several times a server's largest archive."""
_PAUSES_S = (1.0, 3.0, 9.0)
_GONE = frozenset((404, 410))
_MAY_PASS = frozenset((408, 425, 429, 500, 502, 503, 504))


class Refused(PermanentHostError):
    """An error for a file that the server does not give to clients without credentials."""


class WrongChecksum(PermanentHostError):
    """An error for a file whose checksum differs from the expected one."""


class TooLarge(PermanentHostError):
    """An error for a file with more bytes than allowed."""


class _TransientError(Exception):
    """A download error that is worth a retry."""


def download(
    url: str,
    target: Path,
    on_event: OnEvent,
    *,
    sha256: str | None = None,
    most_bytes: int = MOST_BYTES,
    pauses_s: tuple[float, ...] = _PAUSES_S,
) -> None:
    """Download ``url`` to ``target``, and verify its ``sha256`` (hex) unless that is None.

    Retry after each of ``pauses_s`` when the network or the server fails temporarily. Raise Refused
    if a retry would not help, TooLarge, WrongChecksum, and HostError when the connection stays
    broken or the disk has too little space for the file.
    """
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    for pause_s in (*pauses_s, None):
        try:
            _transfer(url, part, on_event, most_bytes, is_verified=sha256 is not None)
            break
        except TooLarge:
            part.unlink(missing_ok=True)
            raise
        except _TransientError as error:
            if pause_s is None:
                hint = "try again; the partial download is kept and will be resumed"
                raise HostError(_failed(url, error), hint=hint) from error
            on_event(Notice(f"{target.name}: {error}; trying again"))
            time.sleep(pause_s)
    verify(part, sha256, without_secrets(url))
    part.replace(target)


def require_served(url: str) -> None:
    """Check that a URL has a file, without download. Raise NotServed, HostError."""
    _require_http(url)
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310
    try:
        with open_address(request, timeout_s=_TIMEOUT_S, is_verified=True):
            return
    except RedirectRefused as error:
        raise HostError(f"unsafe redirect: {error}") from error
    except urllib.error.HTTPError as error:
        problem = NotServed if error.code in _GONE else HostError
        raise problem(f"HTTP status {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise HostError(f"no answer: {error}") from error


def _require_http(url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise UserError(f"{without_secrets(url)}: only http and https URLs are supported")


def verify(file: Path, sha256: str | None, what: str) -> str:
    """Return a file's SHA-256. Remove a file that differs, and raise WrongChecksum."""
    got = file_sha256(file)
    if sha256 is not None and got != sha256.lower():
        size_bytes = file.stat().st_size
        file.unlink()
        raise WrongChecksum(
            f"{what}: wrong checksum: expected sha256 {sha256}, got {got} ({size_bytes} bytes)",
            hint="try again; if the error persists, the publisher has changed the file",
        )
    return got


def _transfer(
    url: str, part: Path, on_event: OnEvent, most_bytes: int, *, is_verified: bool
) -> None:
    have = part.stat().st_size if part.exists() else 0
    if have > most_bytes:
        part.unlink()
        have = 0
    _require_http(url)
    request = urllib.request.Request(  # noqa: S310
        url, headers={"Range": f"bytes={have}-"} if have else {}
    )
    try:
        with open_address(request, timeout_s=_TIMEOUT_S, is_verified=is_verified) as answer:
            begin = have if answer.status == 206 else 0
            _receive(answer, part, begin, on_event, url=url, most_bytes=most_bytes)
    except RedirectRefused as error:
        hint = "check the URL; if the redirect is correct, use its target instead"
        raise Refused(_failed(url, error), hint=hint) from error
    except urllib.error.HTTPError as error:
        if error.code == 416 and _is_whole(error, have):
            return
        if error.code == 416:
            part.unlink(missing_ok=True)
            raise _TransientError("the partial download does not match the file") from error
        said = f"HTTP status {error.code} {error.reason}"
        if error.code in _MAY_PASS:
            raise _TransientError(said) from error
        raise Refused(_failed(url, said), hint="check the address") from error
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
        ssl.SSLError,
    ) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if reason is not error and _is_refusal(reason):
            hint = "check this host's trusted certificates and its proxy settings"
            raise Refused(_failed(url, reason), hint=hint) from error
        raise _TransientError(str(reason) or repr(error)) from error


def _failed(url: str, why: object) -> str:
    return f"downloading {without_secrets(url)} failed: {why}"


def _receive(
    answer: Answer, part: Path, begin: int, on_event: OnEvent, *, url: str, most_bytes: int
) -> None:
    total = None if answer.length is None else begin + answer.length
    if total is not None and total > most_bytes:
        raise _too_large(url, f"{total:,}", most_bytes)
    done = begin
    with part.open("r+b" if begin else "wb") as file:
        file.seek(begin)
        file.truncate()
        _require_space(part, 0 if total is None else total - done)
        while chunk := answer.read():
            done += len(chunk)
            if done > most_bytes:
                raise _too_large(url, f"more than {most_bytes:,}", most_bytes)
            _require_space(part, len(chunk))
            file.write(chunk)
            on_event(DownloadMoved(part.name.removesuffix(".part"), done, total))
    if total is not None and done < total:
        raise _TransientError(f"cut off after {done} of {total} bytes")


def _too_large(url: str, sent: str, most_bytes: int) -> TooLarge:
    return TooLarge(
        f"{without_secrets(url)}: the server sends {sent} bytes, but the limit for this file is "
        f"{most_bytes:,}",
        hint="check the URL; if the archive is this large, download it and add it by its path",
    )


def _require_space(part: Path, wanted_bytes: int) -> None:
    kept = "the partial download is kept and will be resumed"
    disk.require_space(part, wanted_bytes, "the download", hint=kept)


def _is_refusal(reason: object) -> bool:
    """Return whether a retry is useless: untrusted certificate, or refused by a proxy."""
    if isinstance(reason, ssl.SSLError):
        return not isinstance(reason, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return str(reason).startswith("Tunnel connection failed: 4")


def _is_whole(error: urllib.error.HTTPError, have: int) -> bool:
    """Return whether status 416 (range not satisfiable) means that the file is complete."""
    return error.headers.get("Content-Range", "") == f"bytes */{have}"
