"""Test that pages and the document explain the same words."""

from millrace.report.common import glossary
from tests.examples import ROOT


def test_document_has_the_words_of_the_list() -> None:
    assert (ROOT / "docs/glossary.md").read_text(encoding="utf-8") == glossary.as_markdown()


def test_words_are_listed_once() -> None:
    names = [name for each in glossary.words() for name in each.name.split(", ")]
    assert len(names) == len(set(names))
