"""Download one file over HTTP(S), with resumption, proxy variables, and retries.

A file may have no more bytes than the catalogue says, and must leave some of the disk free.

While it arrives the file is called ``NAME.part``. It gets its name when it is complete and, where a
checksum is known, correct. An interrupted download leaves its part for the next attempt, a wrong
one leaves nothing.
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
    """An error for an address that refuses the file to a client without keys and passwords."""


class WrongChecksum(PermanentHostError):
    """An error for a file with another checksum than expected."""


class TooLarge(PermanentHostError):
    """An error for a file with more bytes than allowed."""


class _TransientError(Exception):
    """An error that may pass in a moment."""


def download(
    url: str,
    target: Path,
    on_event: OnEvent,
    *,
    sha256: str | None = None,
    most_bytes: int = MOST_BYTES,
    pauses_s: tuple[float, ...] = _PAUSES_S,
) -> None:
    """Download ``url`` to ``target``, and compare it with ``sha256`` (hex) unless that is None.

    Try again after each of ``pauses_s`` when the network or the server falters. Raise Refused when
    that would not help, TooLarge, WrongChecksum, and HostError when the connection stays broken or
    the disk has no space for the file.
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
                hint = "try again; what has arrived is kept and continued"
                raise HostError(_failed(url, error), hint=hint) from error
            on_event(Notice(f"{target.name}: {error}; trying again"))
            time.sleep(pause_s)
    verify(part, sha256, without_secrets(url))
    part.replace(target)


def require_served(url: str) -> None:
    """Query whether an address has a file, without download. Raise NotServed, HostError."""
    _require_http(url)
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310
    try:
        with open_address(request, timeout_s=_TIMEOUT_S, is_verified=True):
            return
    except RedirectRefused as error:
        raise HostError(f"no answer that can be trusted: {error}") from error
    except urllib.error.HTTPError as error:
        problem = NotServed if error.code in _GONE else HostError
        raise problem(f"the server says {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise HostError(f"no answer: {error}") from error


def _require_http(url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise UserError(f"{without_secrets(url)}: only http and https addresses can be downloaded")


def verify(file: Path, sha256: str | None, what: str) -> str:
    """Return the SHA-256 of a file. Remove a file with a wrong one, and raise WrongChecksum."""
    got = file_sha256(file)
    if sha256 is not None and got != sha256.lower():
        size_bytes = file.stat().st_size
        file.unlink()
        raise WrongChecksum(
            f"{what}: wrong checksum: expected sha256 {sha256}, got {got} ({size_bytes} bytes)",
            hint="try again; if it stays so, the file has been changed at its origin",
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
        hint = "check the address; where the redirect is right, give the address it leads to"
        raise Refused(_failed(url, error), hint=hint) from error
    except urllib.error.HTTPError as error:
        if error.code == 416 and _is_whole(error, have):
            return
        if error.code == 416:
            part.unlink(missing_ok=True)
            raise _TransientError("what had arrived before does not fit the file") from error
        said = f"the server says {error.code} {error.reason}"
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
            hint = "check the certificates this host trusts, and the proxy it is set to"
            raise Refused(_failed(url, reason), hint=hint) from error
        raise _TransientError(str(reason) or repr(error)) from error


def _failed(url: str, why: object) -> str:
    return f"{without_secrets(url)} could not be downloaded: {why}"


def _receive(
    answer: Answer,
    part: Path,
    begin: int,
    on_event: OnEvent,
    *,
    url: str,
    most_bytes: int,
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
        f"{without_secrets(url)}: the server sends {sent} bytes, and the file has at most "
        f"{most_bytes:,}",
        hint="check the address; download an archive of this size yourself, and give its path",
    )


def _require_space(part: Path, wanted_bytes: int) -> None:
    kept = "what has arrived is kept and continued"
    disk.require_space(part, wanted_bytes, "the download", hint=kept)


def _is_refusal(reason: object) -> bool:
    """Return whether a retry is useless: a certificate is not trusted, or a proxy refuses."""
    if isinstance(reason, ssl.SSLError):
        return not isinstance(reason, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return str(reason).startswith("Tunnel connection failed: 4")


def _is_whole(error: urllib.error.HTTPError, have: int) -> bool:
    """Return whether the error "range not satisfiable" means that nothing is missing."""
    return error.headers.get("Content-Range", "") == f"bytes */{have}"
