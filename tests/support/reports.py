"""Read reports as people do: terminals and pages as plain text, pages also by their elements."""

import io
import re
from collections.abc import Callable
from html.parser import HTMLParser

from rich.console import Console

Attributes = list[tuple[str, str | None]]


def terminal_text(show: Callable[[Console], object], *, width: int = 120) -> str:
    """Return what ``show`` prints on a terminal of this width, without colour."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    show(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def one_line(text: str) -> str:
    """Return the text with single spaces in place of all white space."""
    return " ".join(text.split())


def page_text(html: str) -> str:
    """Return the text of a page on one line."""
    without = re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)
    return one_line(re.sub(r"<[^>]+>", "", without))


class Page(HTMLParser):
    """Ids of sections in order, elements that load something, and counted marks."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.loads: list[str] = []
        self.bars = 0
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Attributes) -> None:
        given = dict(attributes)
        if tag == "section":
            self.sections.append(given.get("id") or "")
        if tag in ("script", "img", "iframe") or "src" in given:
            self.loads.append(tag)
        if "href" in given and not str(given["href"]).startswith(("#", "data:")):
            self.loads.append(str(given["href"]))
        self.bars += tag == "rect" and "bar" in (given.get("class") or "").split()
        if tag not in ("meta", "link", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attributes: Attributes) -> None:
        self.handle_starttag(tag, attributes)
        self.open.pop()
