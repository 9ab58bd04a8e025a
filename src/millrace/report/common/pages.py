"""The HTML pages' common parts: the templates' environment and the filters of text."""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from jinja2 import BytecodeCache, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape
from pydantic import TypeAdapter

from millrace.report.common.formatting import figure_text

LONGEST_UNBROKEN = 24  # characters of a name that a phone has room for on one line


@dataclass(frozen=True)
class Word:
    """A word, or several that belong together; ``page`` words are explained in reports."""

    name: str
    meaning: str
    page: bool = False


@lru_cache(maxsize=1)
def words() -> tuple[Word, ...]:
    """Return the words of millrace, for pages and docs/glossary.md, in the order of the latter."""
    text = (files("millrace.report") / "templates/glossary.toml").read_text("utf-8")
    return TypeAdapter(tuple[Word, ...]).validate_python(tomllib.loads(text)["word"])


class _CompiledTemplates(BytecodeCache):
    """The compiled templates of this process; compiling takes longer than rendering.

    Environments differ in their filter ``prose``, so that no template may apply it to a constant,
    which would be folded into what is compiled.
    """

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if (kept := self._kept.get(bucket.key)) is not None:
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _CompiledTemplates()


def environment(names: Iterable[str]) -> Environment:
    """Return the environment of the templates; lines are not broken within short ``names``."""
    made = Environment(
        loader=PackageLoader("millrace.report"),
        bytecode_cache=_COMPILED,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["at"] = "{:.2f}%".format
    made.filters["prose"] = _prose(names)
    made.filters["code"] = _code
    made.filters["slug"] = lambda text: text.replace(" ", "-")
    made.filters["heading"] = heading
    # Of a server's name, which may be broken into lines after its family.
    made.filters["broken"] = lambda name: escape(name).replace("-", Markup("-<wbr>"))
    made.filters["figure"] = figure_text
    made.globals["glossary"] = [each for each in words() if each.page]
    return made


def _prose(names: Iterable[str]) -> Callable[[str], Markup]:
    """Return a filter that keeps short names and numbers with units on one line, and marks code."""
    short = sorted({name for name in names if len(name) <= LONGEST_UNBROKEN}, key=len)
    # Without names nothing matches: (?!) never does.
    known = "|".join(re.escape(str(escape(name))) for name in reversed(short)) or "(?!)"
    # No part of a longer name, of a number (a name may be 1), or of an escaped character.
    pattern = rf"(?<![\w&#+−-])(?<!\d[.,])(?:{known})(?![\w-]|[.,]\d)"

    def prose(text: str) -> Markup:
        kept = re.sub(r" (·|%|rows/s|s|µs|blocks?)(?=[ ,.:;)]|$)", "\u00a0\\1", text)
        kept = re.sub(r"\bmargin (?=\d)", "margin\u00a0", kept)
        return _code(kept, lambda said: re.sub(pattern, r'<span class="name">\g<0></span>', said))

    return prose


def _code(text: str, otherwise: Callable[[str], str] = str) -> Markup:
    """Return escaped text with `backticks` as code; ``otherwise`` marks up the rest."""
    pieces = re.split(r"`([^`]+)`", str(escape(text)))
    marked = (
        f"<code>{piece}</code>" if number % 2 else otherwise(piece)
        for number, piece in enumerate(pieces)
    )
    return Markup("".join(marked))  # noqa: S704 - escaped above


def heading(text: str) -> str:
    """Return text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
