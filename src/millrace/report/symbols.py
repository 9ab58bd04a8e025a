"""Names of functions as short as they can be shown."""

from __future__ import annotations

import re

_CLONE = re.compile(r"\s*\[clone [^\]]*\]|\.(?:isra|part|constprop|cold|lto_priv)(?:\.\d+)*$")
_ARGUMENTS = re.compile(r"\([^()]*\)(?: const)?")
_TEMPLATE = re.compile(r"<[^<>]*>")


def short_symbol(symbol: str) -> str:
    """A function's name without return type, arguments, template arguments and compiler's suffix.

    ``void foo<int>(int) [clone .isra.0]`` is ``foo``. Operators stay as they are.
    """
    text = symbol.replace("(anonymous namespace)::", "")
    if "operator" in text:
        return text
    plain = _until_stable(_TEMPLATE, _until_stable(_ARGUMENTS, _CLONE.sub("", text)))
    # What is left before a space is a return type, where there were arguments or a template.
    return plain.rstrip().rsplit(" ", 1)[-1] if plain != text and " " in text else plain


def _until_stable(pattern: re.Pattern[str], text: str) -> str:
    """``text`` without what matches, from the inside out."""
    while (shorter := pattern.sub("", text)) != text:
        text = shorter
    return text
