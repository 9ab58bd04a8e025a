"""The examples of the documents: fenced blocks, and the commands in them.

A block of `sh` holds commands to type, one of `toml`, `json` or `csv` a file, and `text` what a
program prints, a formula or a drawing. Words such as RUN are placeholders that the reader replaces.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

ROOT = Path(__file__).parents[1]
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
LANGUAGES = ("sh", "toml", "json", "csv", "text")

# The stand-ins that a test puts in place of placeholders.
STAND_INS = {
    "CHANGE": "a1b2c3d",
    "DATE": "2026-05-01",
    "LEVEL": "mysql-5.6.24",
    "N": "5",
    "PID": "1",
    "RUN": "latest",
    "SNAPSHOT": "0123456789ab",
    "TEXT": "throughput",
    "VERSION": "a1b2c3d",
    "$COMMIT": "a1b2c3d",
    "$COMMIT_DATE": "2026-05-01",
}
_STANDS_IN = re.compile(r"\$?[A-Z_]+")
_PROGRAM = re.compile(r"(?:millrace|millrace-load)\s")
_OPERATORS = re.compile(r"[|&;<>]+")


@dataclass(frozen=True)
class Example:
    """A fenced block: its page, the line of its fence, its language and its text."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of an example; ``output`` is the file its standard output goes to."""

    program: str
    arguments: tuple[str, ...]
    output: str | None = None


def of_page(page: Path) -> list[Example]:
    """Return the examples of a page.

    Raise ValueError where a fence is not closed or not a plain one."""
    found: list[Example] = []
    opened: tuple[int, str] | None = None
    block: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.lstrip().startswith(("```", "~~~")):
            block.append(line)
        elif opened is None and line.startswith("```"):
            opened, block = (number, line.removeprefix("```").strip()), []
        elif opened is not None and line == "```":
            found.append(Example(page, *opened, "\n".join(block) + "\n"))
            opened = None
        else:
            raise ValueError(f"{page.name}:{number}: a fence is three backticks without an indent")
    if opened is not None:
        raise ValueError(f"{page.name}:{opened[0]}: the fence is not closed")
    return found


def every() -> list[Example]:
    """Return the examples of all pages."""
    return [example for page in PAGES for example in of_page(page)]


def spans(page: Path) -> list[str]:
    """Return the commands in the text of a page, marked as code, without its examples."""
    fenced = False
    text = []
    for line in page.read_text(encoding="utf-8").splitlines():
        fenced ^= line.startswith("```")
        if not fenced:
            text.append(line)
    found = re.findall(r"(?<!`)`([^`]+)`(?!`)", "\n".join(text))
    return [span for span in found if _PROGRAM.match(span)]


def commands(example: Example) -> list[Command]:
    """Return the commands of a block of `sh`, with a stand-in for each placeholder."""
    return [command for words in _lines(example.text) for command in _commands(words)]


def _lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each command line; a quote or a backslash continues it below."""
    begun = ""
    for line in text.splitlines(keepends=True):
        begun += line
        if begun.endswith("\\\n"):
            begun = begun.removesuffix("\\\n") + " "
            continue
        try:
            words = _words(begun)
        except ValueError:  # a quotation that the next line closes
            continue
        begun = ""
        yield words
    if begun:
        raise ValueError(f"not complete: {begun}")


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    return list(lexer)


def _commands(words: list[str]) -> Iterator[Command]:
    """Yield the commands of a line, separated by `|`, `&&` and `;`."""
    rest = [*words, ";"]
    begun: list[str] = []
    output = None
    while rest:
        word = rest.pop(0)
        if word == ">":
            output = rest.pop(0)
        elif not _OPERATORS.fullmatch(word):
            begun.append(_stood_in(word))
        elif begun:
            yield Command(PurePath(begun[0]).name, tuple(begun[1:]), output)
            begun, output = [], None


def _stood_in(word: str) -> str:
    """Return the stand-in for a placeholder, including `[--optional ONE]` and `SEVERAL...`."""
    bare = word.strip("[]").removesuffix("...")
    if not _STANDS_IN.fullmatch(bare):
        return word if " " in word else word.strip("[]")
    if bare not in STAND_INS:
        raise ValueError(f"nothing stands in for {word}: add it to STAND_INS, or write an example")
    return STAND_INS[bare]
