"""Lists, first lines, commands and names of functions as reports show them."""

import re
import shlex
from collections.abc import Mapping, Sequence

from millrace.store.records import Origin, RunRecord

ORIGIN_TEXT: Mapping[Origin, str] = {
    "local": "measured here",
    "imported": "imported, not measured here",
}
_IMPORTED = (
    "the run was imported: what it says of its servers, its host and its results is its author's, "
    "and nothing in it was measured or verified here"
)

# A match is looked for where blanks begin, and takes no other bracket: names may be of any length.
_CLONE = re.compile(
    r"(?<!\s)\s*\[clone [^\[\]]*\]|\.(?:isra|part|constprop|cold|lto_priv)(?:\.\d+)*$"
)


def short_symbol(symbol: str) -> str:
    """Return a function's bare name, without types, arguments and the compiler's suffix.

    ``void foo<int>(int) [clone .isra.0]`` is ``foo``. Operators stay as they are.
    """
    text = symbol.replace("(anonymous namespace)::", "")
    if "operator" in text:
        return text
    plain = _without(_without(_CLONE.sub("", text), ("(", ")"), " const"), ("<", ">"))
    # What is left before a space is a return type, where there were arguments or a template.
    return plain.rstrip().rsplit(" ", 1)[-1] if plain != text and " " in text else plain


def _without(text: str, brackets: tuple[str, str], after: str = "") -> str:
    """Return ``text`` without matching brackets, their content, and ``after`` after them."""
    opening, closing = brackets
    kept: list[str] = []
    opened: list[int] = []
    at = 0
    while at < len(text):
        if text[at] == closing and opened:
            del kept[opened.pop() :]
            at += len(after) * text.startswith(after, at + 1)
        else:
            if text[at] == opening:
                opened.append(len(kept))
            kept.append(text[at])
        at += 1
    return "".join(kept)


def imported_notes(run: RunRecord) -> list[str]:
    """Return the notes on an imported run; empty for a run that was measured here."""
    return [_IMPORTED] if run.origin == "imported" else []


def first_line(text: str) -> str:
    """Return the first line without a period at its end."""
    return text.strip().split("\n", 1)[0].rstrip(".")


def listed(parts: Sequence[str]) -> str:
    """Return text such as ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


_LIMITS = ("--blocks", "--max-blocks", "--max-time")
_CONTINUE = ("run", "calibrate", "bisect")


def repeating(command: str) -> str:
    """Return the command of a run with ``--new``, so that it begins a new run.

    Return an empty text for a measurement that confirms a change, which cannot begin again, and for
    imported text that is not a command of millrace. The result is safe to paste into a shell.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    if words[:1] != ["millrace"] or words[1:3] == ["history", "confirm"]:
        return ""
    if "--new" not in words and words[1:2] and words[1] in _CONTINUE:
        words.insert(2, "--new")
    return shlex.join(words)


def extended(command: str, options: str) -> str:
    """Return the command of a run with limits such as ``--blocks 9`` in place of its own.

    Return an empty text for other commands than ``millrace run``.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # of an import, which may be no command
        return ""
    if words[:2] != ["millrace", "run"]:
        return ""
    kept: list[str] = []
    for word in words:
        name, equals, _ = word.partition("=")
        if kept and kept[-1] in _LIMITS:
            kept.pop()  # the option's value
        elif word != "--new" and not (equals and name in _LIMITS):
            kept.append(word)
    return f"{shlex.join(kept)} {options}"
