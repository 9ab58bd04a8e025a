"""Lists, first lines, commands and names of functions as reports show them."""

import re
import shlex
from collections.abc import Sequence

_CLONE = re.compile(r"\s*\[clone [^\]]*\]|\.(?:isra|part|constprop|cold|lto_priv)(?:\.\d+)*$")
_ARGUMENTS = re.compile(r"\([^()]*\)(?: const)?")
_TEMPLATE = re.compile(r"<[^<>]*>")


def short_symbol(symbol: str) -> str:
    """Return a function's bare name, without types, arguments and the compiler's suffix.

    ``void foo<int>(int) [clone .isra.0]`` is ``foo``. Operators stay as they are.
    """
    text = symbol.replace("(anonymous namespace)::", "")
    if "operator" in text:
        return text
    plain = _until_stable(_TEMPLATE, _until_stable(_ARGUMENTS, _CLONE.sub("", text)))
    # What is left before a space is a return type, where there were arguments or a template.
    return plain.rstrip().rsplit(" ", 1)[-1] if plain != text and " " in text else plain


def _until_stable(pattern: re.Pattern[str], text: str) -> str:
    """Return ``text`` without what matches, removed from the inside out."""
    while (shorter := pattern.sub("", text)) != text:
        text = shorter
    return text


def first_line(text: str) -> str:
    """Return the first line without a period at its end."""
    return text.strip().split("\n", 1)[0].rstrip(".")


def listed(parts: Sequence[str]) -> str:
    """Return text such as ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


_LIMITS = (("--blocks", "--max-blocks"), ("--max-time",))  # each replaces the others of its kind
_CONTINUES = re.compile(r"millrace (?:run|calibrate|bisect)(?=\s|$)")


def repeating(command: str) -> str:
    """Return the command of a run as one that begins a new run; else it would continue it.

    The measurement that confirms a change cannot begin anew: nothing is returned for it.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # of an import, which may be no command
        words = command.split()
    if words[:3] == ["millrace", "history", "confirm"]:
        return ""
    if "--new" in words:
        return command
    return _CONTINUES.sub(lambda match: f"{match[0]} --new", command, count=1)


def extended(command: str, options: str) -> str:
    """Return the command of a run with limits such as ``--blocks 9``, so that it is extended.

    Return an empty text for other commands than ``millrace run``.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # of an import, which may be no command
        return ""
    if words[:2] != ["millrace", "run"]:
        return ""
    given = options.split()
    replaced = {name for names in _LIMITS if not set(names).isdisjoint(given) for name in names}
    kept: list[str] = []
    for word in words:
        name, equals, _ = word.partition("=")
        if kept and kept[-1] in replaced:
            kept.pop()  # the option's value
        elif word != "--new" and not (equals and name in replaced):
            kept.append(word)
    return f"{shlex.join(kept)} {options}"
