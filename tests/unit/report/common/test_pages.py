"""Test text on HTML pages."""

import re

import pytest
from markupsafe import Markup

from millrace.report.common.pages import environment, words
from tests.examples import ROOT


def shown(text: str, *names: str) -> str:
    prose = environment(names).filters["prose"]
    return str(Markup(prose(text)))


def marked(text: str, *names: str) -> list[str]:
    return re.findall(r'<span class="name">(.*?)</span>', shown(text, *names))


def test_names_are_kept_on_one_line() -> None:
    said = shown("mysql-9.7.4 needs more than mysql-5.6.24.", "mysql-9.7.4", "mysql-5.6.24")
    assert said == (
        '<span class="name">mysql-9.7.4</span> needs more than '
        '<span class="name">mysql-5.6.24</span>.'
    )
    assert marked("of 2 blocks of 1, 1 was disturbed", "1") == ["1", "1"]
    assert marked("(tls on · a: mysql-8.0.33’s)", "tls on", "mysql-8.0.33") == [
        "tls on", "mysql-8.0.33"
    ]  # fmt: skip


def test_every_page_names_no_base_and_sends_no_form() -> None:
    made = environment(())
    assert made.loader is not None
    sources = [made.loader.get_source(made, name)[0] for name in made.list_templates()]
    pages = [source for source in sources if "<!DOCTYPE html>" in source]
    assert len(pages) == 1
    for page in pages:
        (policy,) = re.findall(r'"Content-Security-Policy" content="([^"]*)', page)
        parts = {part.strip() for part in policy.split(";")}
        assert {"default-src 'none'", "base-uri 'none'", "form-action 'none'"} <= parts


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("3,966 µs in B, 1,977 µs longer", "1"),
        ("+1,301 and −1 and -1 and 0.1 and 1.5 and 10", "1"),
        ("innodb_log1 and sha1sum", "1"),
        ("mysql-5.6.24-debug and mysql-5.6.241", "mysql-5.6.24"),
        ("an old one’s", "on"),
        ("it's", "39"),  # in its escaped form
        ("a < b", "lt"),
    ],
)
def test_parts_of_words_and_numbers_are_no_names(text: str, name: str) -> None:
    assert marked(text, name) == []


def test_document_has_the_words_of_the_list() -> None:
    rows = "".join(f"| {each.name} | {each.meaning} |\n" for each in words())
    document = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    assert document == f"# Glossary\n\n| word | meaning |\n|---|---|\n{rows}"


def test_words_are_listed_once() -> None:
    names = [name for each in words() for name in each.name.split(", ")]
    assert len(names) == len(set(names))
