"""Parse untrusted JSON with limits on bytes, values, depth, text and magnitude.

Python's own parser accepts ``NaN``, integers of any length and lone surrogates, raises
RecursionError, and can use 64 bytes of memory for two bytes of text.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

_MAGNITUDE = 1e20  # the largest float


@dataclass(frozen=True)
class Limits:
    """The limits of a document.

    ``values``: number of values, estimated from commas and brackets. The estimate includes those in
    strings, so it is an upper bound. ``depth``: levels of nesting. ``text_chars``: length of a
    string or key. ``largest``: absolute value of an integer.
    """

    size_bytes: int = 1 << 20
    values: int = 100_000
    depth: int = 32
    text_chars: int = 1 << 16
    largest: int = 2**63 - 1


SMALL = Limits()
"""The limits of a small document: a lock, a manifest, a response of a program."""


_OF_A_LINE = Limits(largest=2**64 - 1)


class JsonRefused(ValueError):
    """An error for text that is not JSON or exceeds a limit; the message has the reason."""


def parse(content: bytes | str, limits: Limits = SMALL) -> Any:
    """Parse ``content`` and return its value; raise JsonRefused for anything but valid JSON."""
    text = _text(content, limits)
    values = 1 + sum(text.count(sign) for sign in ",[{")
    if values > limits.values:
        raise JsonRefused(f"more than {limits.values:,} values")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise JsonRefused(f"nested more than {limits.depth} levels deep") from None
    except JsonRefused:
        raise
    except ValueError as error:
        raise JsonRefused(str(error)) from None
    _check(value, limits)
    return value


def parse_lines(content: bytes, most: int) -> tuple[dict[str, Any], ...]:
    """Return the JSON object of each line; ValueError for other lines or more than ``most``.

    Integers may be unsigned 64-bit numbers, as counters of servers are.
    """
    lines = content.splitlines()
    if len(lines) > most:
        raise ValueError(f"more than {most:,} lines")
    return tuple(parse_object(line, _OF_A_LINE) for line in lines)


def parse_object(content: bytes | str, limits: Limits = SMALL) -> dict[str, Any]:
    """Parse ``content`` and return the JSON object; raise JsonRefused for anything else."""
    value = parse(content, limits)
    if not isinstance(value, dict):
        raise JsonRefused("not a JSON object")
    return value


def read(path: Path, limits: Limits = SMALL) -> Any:
    """Parse a file and return its value; raise OSError, or JsonRefused for invalid content."""
    with path.open("rb") as file:
        return parse(read_bounded(file, limits.size_bytes), limits)


def read_bounded(file: BinaryIO, size_bytes: int) -> bytes:
    """Return the rest of ``file``; raise JsonRefused if it is longer than ``size_bytes``."""
    content = file.read(size_bytes + 1)
    if len(content) > size_bytes:
        raise JsonRefused(f"larger than {size_bytes:,} bytes")
    return content


def _text(content: bytes | str, limits: Limits) -> str:
    if len(content) > limits.size_bytes:
        raise JsonRefused(f"larger than {limits.size_bytes:,} bytes")
    if isinstance(content, str):
        return content
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonRefused(f"not UTF-8 (byte {error.start})") from None


def _refuse_constant(name: str) -> NoReturn:
    raise JsonRefused(f"{name} is not a valid JSON number")


def _check(value: Any, limits: Limits) -> None:
    level = [value]
    for left in range(limits.depth, -1, -1):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict | list):
                if not left:
                    raise JsonRefused(f"nested more than {limits.depth} levels deep")
                inner.extend(each.values() if isinstance(each, dict) else each)
                for key in each if isinstance(each, dict) else ():
                    _check_text(key, limits)
            elif isinstance(each, str):
                _check_text(each, limits)
            elif isinstance(each, int) and abs(each) > limits.largest:
                raise JsonRefused(f"a whole number is beyond ±{limits.largest}")
            elif isinstance(each, float) and not abs(each) <= _MAGNITUDE:
                raise JsonRefused(f"a number is beyond ±{_MAGNITUDE:g}")
        level = inner


def _check_text(text: str, limits: Limits) -> None:
    if len(text) > limits.text_chars:
        raise JsonRefused(f"a text is longer than {limits.text_chars:,} characters")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise JsonRefused(
                "a string contains a lone surrogate, which is not a character"
            ) from None
