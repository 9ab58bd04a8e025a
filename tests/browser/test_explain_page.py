"""Test the page of an explanation in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from millrace.output_files import PAGE, write_text
from millrace.report.explanation import html as explain_html
from tests.support.browser_pages import (
    assert_nothing_clipped,
    box,
    contrast,
    luminance,
    open_page,
    said_and_requested,
)
from tests.support.explained import explained_study, unprofiled

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = explained_study()
    path = tmp_path_factory.mktemp("explain") / "one.html"
    return write_text(path, explain_html.as_html([found], found.run), PAGE)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = explained_study()
    path = tmp_path_factory.mktemp("explain") / "several.html"
    return write_text(path, explain_html.as_html([found, unprofiled(), found], found.run), PAGE)


def test_nothing_is_loaded_and_nothing_complains(browser: Browser, several: Path) -> None:
    assert said_and_requested(browser, several) == ([], [])


def test_the_answer_is_seen_first(browser: Browser, page_file: Path) -> None:
    page = open_page(browser, page_file)
    assert box(page.locator("p.answer").first)["y"] < 200
    tops = page.eval_on_selector_all(
        "section", "all => all.map(s => s.getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)


@pytest.mark.parametrize("width", [400, 700, 1280])
def test_nothing_is_clipped(browser: Browser, several: Path, width: int) -> None:
    page = open_page(browser, several, width=width)
    assert_nothing_clipped(
        page, "p, li, summary, figcaption, .stack text, .stack-axis text, .legend text"
    )


def test_bars_of_the_account_are_as_long_as_their_times(browser: Browser, page_file: Path) -> None:
    page = open_page(browser, page_file)
    lengths = page.eval_on_selector_all(
        ".stack .whole",
        "all => all.map(e => e.getBoundingClientRect().left - "
        "e.closest('.stack').getBoundingClientRect().left)",
    )
    texts = page.locator(".stack-label .muted").all_inner_texts()
    times = [float(text.split("\u00a0")[0]) for text in texts]
    assert lengths[0] / lengths[1] == pytest.approx(times[0] / times[1], rel=0.01)


def test_the_graphs_of_a_page_work_each_by_itself(browser: Browser, several: Path) -> None:
    """Check also that the page's own policy lets the script run."""
    page = open_page(browser, several)
    graphs = page.locator(".flame-graph.ready")
    assert graphs.count() == 2
    first, second = graphs.nth(0), graphs.nth(1)
    clicked = first.locator(".graph").nth(1).locator(".frame:has(title:text-matches('^dispatch'))")
    clicked.first.click()
    assert first.get_by_role("button", name="Reset zoom").is_enabled()
    assert second.get_by_role("button", name="Reset zoom").is_disabled()
    second.get_by_role("searchbox").fill("tcp_")
    assert "difference" in second.locator(".flame-found").inner_text()
    assert first.locator(".match").count() == 0


@pytest.mark.parametrize("dark", [False, True])
def test_ink_is_readable(browser: Browser, page_file: Path, dark: bool) -> None:
    page = open_page(browser, page_file, dark=dark)
    paper = luminance(page, "body", "backgroundColor")
    for selector in (".answer", ".how", ".more", ".less", ".not-sure", ".key", ".flame-detail"):
        assert contrast(page, selector, "color", paper) >= 4.5, selector
    for key in page.eval_on_selector_all(".parts rect", "all => all.map(e => e.classList[0])"):
        part = luminance(page, f".parts .{key}", "fill")
        assert contrast(page, ".stack text", "fill", part) >= 4.5, key


def test_it_fits_the_paper(browser: Browser, page_file: Path) -> None:
    page = open_page(browser, page_file, width=680)
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert not page.locator(".flame-controls").is_visible()
    assert page.locator(".flame-graph .frame").first.is_visible()
