"""Downloads one file over HTTP(S): resumes, follows the proxy variables, and retries what may pass.

A file may have no more bytes than the catalogue says, and leaves some of the disk free.

While it arrives the file is called ``NAME.part``; it gets its name when it is whole and, where a
checksum is known, right. An interrupted download leaves its part behind for the next attempt, a
wrong one leaves nothing.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from millrace.errors import HostError, NotServed, PermanentHostError, UserError
from millrace.servers import disk
from millrace.servers.progress import Progress
from millrace.servers.provenance import file_sha256
from millrace.servers.web import RedirectRefused, open_address, without_secrets

_CHUNK_BYTES = 1 << 18
_TIMEOUT_S = 60
MOST_BYTES = 8 << 30
"""The limit of a file whose size is not known: several times the largest archive of a server."""
_PAUSES_S = (1.0, 3.0, 9.0)
_GONE = frozenset((404, 410))
_MAY_PASS = frozenset((408, 425, 429, 500, 502, 503, 504))


class Refused(PermanentHostError):
    """The address does not give the file to us; to a client with keys and passwords it may."""


class WrongChecksum(PermanentHostError):
    """A file is another one than was expected."""


class TooLarge(PermanentHostError):
    """A file has more bytes than it may have."""


class _TransientError(Exception):
    """Something that may be better in a moment."""


class _TooManyBytesError(Exception):
    """More bytes come than the file may have; the message says how many."""


def download(
    url: str,
    target: Path,
    progress: Progress,
    *,
    sha256: str | None = None,
    most_bytes: int = MOST_BYTES,
    pauses_s: tuple[float, ...] = _PAUSES_S,
) -> None:
    """Bring ``url`` to ``target``, checked against ``sha256`` (hex) where it is given.

    Tries again after each of ``pauses_s`` when the network or the server falters. Raises Refused
    when that would not help, TooLarge, WrongChecksum, and HostError when it stays cut off or the
    disk has no space for it.
    """
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    for pause_s in (*pauses_s, None):
        try:
            _transfer(url, part, progress, most_bytes, is_verified=sha256 is not None)
            break
        except _TooManyBytesError as error:
            part.unlink(missing_ok=True)
            raise TooLarge(
                f"{without_secrets(url)}: the server sends {error} bytes, and the file has at most "
                f"{most_bytes:,}",
                hint="check the address; download an archive that is this large yourself, and "
                "give its path",
            ) from error
        except _TransientError as error:
            if pause_s is None:
                raise HostError(
                    f"{without_secrets(url)} could not be downloaded: {error}",
                    hint="try again; what has arrived is kept and continued",
                ) from error
            progress.say(f"{target.name}: {error}; trying again")
            time.sleep(pause_s)
    verify(part, sha256, without_secrets(url))
    part.replace(target)


def require_served(url: str) -> None:
    """Ask whether an address has a file, without downloading it.

    Raises NotServed where the answer is no, HostError where there is no answer.
    """
    if not url.startswith(("http://", "https://")):
        raise UserError(f"{without_secrets(url)}: only http and https addresses can be downloaded")
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


def verify(file: Path, sha256: str | None, what: str) -> str:
    """The SHA-256 of a file; one that is not the expected one is removed: WrongChecksum."""
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
    url: str, part: Path, progress: Progress, most_bytes: int, *, is_verified: bool
) -> None:
    """Bring the part to its full length, from where it ends."""
    have = part.stat().st_size if part.exists() else 0
    if have > most_bytes:
        part.unlink()
        have = 0
    if not url.startswith(("http://", "https://")):
        raise UserError(f"{without_secrets(url)}: only http and https addresses can be downloaded")
    request = urllib.request.Request(  # noqa: S310
        url, headers={"Range": f"bytes={have}-"} if have else {}
    )
    try:
        with open_address(request, timeout_s=_TIMEOUT_S, is_verified=is_verified) as answer:
            _receive(answer, part, have if answer.status == 206 else 0, progress, most_bytes)
    except RedirectRefused as error:
        raise Refused(
            f"{without_secrets(url)} could not be downloaded: {error}",
            hint="check the address; where the redirect is right, give the address it leads to",
        ) from error
    except urllib.error.HTTPError as error:
        if error.code == 416 and _is_whole(error, have):
            return
        if error.code == 416:
            part.unlink(missing_ok=True)
            raise _TransientError("what had arrived before does not fit the file") from error
        if error.code in _MAY_PASS:
            raise _TransientError(f"the server says {error.code} {error.reason}") from error
        raise Refused(
            f"{without_secrets(url)} could not be downloaded: "
            f"the server says {error.code} {error.reason}",
            hint="check the address",
        ) from error
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
        ssl.SSLError,
    ) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if reason is not error and _is_refusal(reason):
            raise Refused(
                f"{without_secrets(url)} could not be downloaded: {reason}",
                hint="check the certificates this host trusts, and the proxy it is set to",
            ) from error
        raise _TransientError(str(reason) or repr(error)) from error


def _receive(
    answer: http.client.HTTPResponse, part: Path, begin: int, progress: Progress, most_bytes: int
) -> None:
    total = None if answer.length is None else begin + answer.length
    if total is not None and total > most_bytes:
        raise _TooManyBytesError(f"{total:,}")
    done = begin
    with part.open("r+b" if begin else "wb") as file:
        file.seek(begin)
        file.truncate()
        _require_space(part, 0 if total is None else total - done)
        while chunk := answer.read(_CHUNK_BYTES):
            done += len(chunk)
            if done > most_bytes:
                raise _TooManyBytesError(f"more than {most_bytes:,}")
            _require_space(part, len(chunk))
            file.write(chunk)
            progress.moved(part.name.removesuffix(".part"), done, total)
    if total is not None and done < total:
        raise _TransientError(f"cut off after {done} of {total} bytes")


def _require_space(part: Path, wanted_bytes: int) -> None:
    kept = "what has arrived is kept and continued"
    disk.require_space(part, wanted_bytes, "the download", hint=kept)


def _is_refusal(reason: object) -> bool:
    """Whether no connection comes about for good: a certificate not trusted, a proxy's no."""
    if isinstance(reason, ssl.SSLError):
        return not isinstance(reason, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return str(reason).startswith("Tunnel connection failed: 4")


def _is_whole(error: urllib.error.HTTPError, have: int) -> bool:
    """Whether "range not satisfiable" means that nothing is missing."""
    return error.headers.get("Content-Range", "") == f"bytes */{have}"
