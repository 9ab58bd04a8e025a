"""The words of millrace and their meanings: one list for pages and for docs/glossary.md."""

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from pydantic import TypeAdapter


@dataclass(frozen=True)
class Word:
    """A word, or several that belong together; ``page`` words are explained in reports."""

    name: str
    meaning: str
    page: bool = False


@lru_cache(maxsize=1)
def words() -> tuple[Word, ...]:
    """Return all words in the order of the document."""
    text = (files("millrace.report") / "templates/glossary.toml").read_text("utf-8")
    return TypeAdapter(tuple[Word, ...]).validate_python(tomllib.loads(text)["word"])


def as_markdown() -> str:
    """Return docs/glossary.md."""
    rows = (f"| {each.name} | {each.meaning} |\n" for each in words())
    return "".join(("# Glossary\n\n| word | meaning |\n|---|---|\n", *rows))
