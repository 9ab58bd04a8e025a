"""Test the differential flame graph in a real browser: alone, zoomed, with a search, by keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page

from millrace.report.common.flame_graph import as_svg, flame_graph
from tests.support.browser_pages import (
    box,
    contrast,
    luminance,
    open_page,
    said_and_requested,
    shared_tab,
)
from tests.support.flame_trees import tree

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flame") / "insert.svg"
    graph = flame_graph(tree(), a="mysql-5.6.24", b="mysql-9.7.4", heading="insert")
    path.write_text(as_svg(graph), "utf-8")
    return path


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    said: list[str] = []

    def on_message(message: ConsoleMessage) -> None:
        said.append(message.text)

    def on_error(error: Error) -> None:
        said.append(str(error))

    tab = shared_tab(browser)
    tab.on("console", on_message)
    tab.on("pageerror", on_error)
    yield open_page(browser, file)
    tab.remove_listener("console", on_message)
    tab.remove_listener("pageerror", on_error)
    assert said == []


def frame(page: Page, label: str, side: int) -> Locator:
    """Return the first frame of a function in the graph of A (0) or B (1)."""
    return page.locator(".graph").nth(side).locator(f".frame:has(title:text-matches('^{label}'))")


def frame_widths(page: Page, label: str) -> list[float]:
    """Return the width of the first frame of a function in each graph."""
    return [box(frame(page, label, side).first.locator("rect"))["width"] for side in (0, 1)]


def widths(page: Page, selector: str) -> list[float]:
    found: list[float] = page.eval_on_selector_all(
        selector, "all => all.map(e => e.getBoundingClientRect().width)"
    )
    return found


def detail(page: Page) -> str:
    return page.inner_text(".flame-detail")


def test_nothing_is_loaded(browser: Browser, file: Path) -> None:
    assert said_and_requested(browser, file) == ([], [])


def test_both_graphs_have_one_scale(page: Page) -> None:
    a, b = (page.locator(".graph").nth(n).locator(".frame > rect").first for n in (0, 1))
    assert box(a)["width"] / box(b)["width"] == pytest.approx(39.41 / 51.72, rel=0.01)
    assert box(a)["x"] == pytest.approx(box(b)["x"], abs=1)


def test_pointing_shows_the_figures_of_both(page: Page) -> None:
    assert "Point at a frame" in detail(page)
    frame(page, "MYSQLparse", 0).first.hover()
    said = detail(page)
    assert "MYSQLparse(THD*, Parse_tree_root**) mysqld" in said
    assert "A 3.1 µs, 7.9 % · B 4.9 µs, 9.5 % · difference +1.8 µs" in said
    assert page.locator(".twin").count() == 2, "it is marked in both graphs"


def test_a_click_zooms_both_and_escape_goes_back(page: Page) -> None:
    before = widths(page, ".graph .frame > rect")
    reset = page.get_by_role("button", name="Reset zoom")
    assert reset.is_disabled()
    frame(page, "dispatch_command", 0).first.click()
    ground = widths(page, ".graph .ground")[0]
    other, zoomed = frame_widths(page, "dispatch_command")
    assert zoomed == pytest.approx(ground, abs=3), "the wider side fills its graph"
    assert other / zoomed == pytest.approx(27.6 / 37.1, rel=0.01)
    assert not frame(page, "net_send_ok", 0).first.is_visible()
    assert frame(page, "MYSQLparse", 0).first.is_visible()
    assert reset.is_enabled()
    page.keyboard.press("Escape")
    assert widths(page, ".graph .frame > rect") == pytest.approx(before, abs=0.1)
    frame(page, "net_send_ok", 0).first.click()
    reset.click()
    assert widths(page, ".graph .frame > rect") == pytest.approx(before, abs=0.1)


def test_a_zoom_finds_the_same_function_below_other_callers(page: Page) -> None:
    frame(page, "ha_innobase::write_row", 0).first.click()
    a, b = frame_widths(page, "ha_innobase::write_row")
    assert a / b == pytest.approx(11.3 / 16, rel=0.01)
    assert frame(page, "Sql_cmd_insert_values", 1).first.is_visible(), "its own caller"


def test_zoom_names_the_side_without_a_function(page: Page) -> None:
    frame(page, "log", 1).first.hover()
    assert "only in B: 2.4 µs" in detail(page)
    frame(page, "log", 1).first.click()
    absent = page.locator(".absent")
    assert absent.nth(0).is_visible()
    assert absent.nth(0).text_content() == "none of it in A"
    assert not absent.nth(1).is_visible()


def test_a_search_marks_and_sums_without_counting_twice(page: Page) -> None:
    box = page.get_by_role("searchbox")
    found = page.locator(".flame-found")
    box.fill("write_row|log_buffer")
    assert page.locator(".graph").nth(1).locator(".match").count() == 2
    # The nested call is not counted twice: 16.0 of B, not 18.4.
    assert found.inner_text() == "A 11.3 µs, 28.7 % · B 16 µs, 30.9 % · difference +4.7 µs"
    box.fill("^libc")
    assert "A 9.6 µs" in found.inner_text(), "libraries are found too"
    box.fill("(")
    assert box.get_attribute("aria-invalid") == "true"
    assert "not a regular expression" in found.inner_text()
    box.fill("")
    assert found.inner_text() == ""
    assert page.locator(".match, .has-search").count() == 0


def test_keys_do_all_of_it(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.localName") == "input"
    page.keyboard.press("Tab")  # the reset button is disabled
    focused = "document.activeElement.querySelector('title').textContent.split('\\n')[0]"
    assert page.evaluate(focused) == "all"
    for key, name in (
        ("ArrowDown", "connection"),
        ("ArrowRight", "page_cleaner"),
        ("ArrowLeft", "connection"),
        ("ArrowDown", "handle_connection"),
        ("ArrowDown", "do_command(THD*)"),
        ("ArrowDown", "dispatch_command"),
        ("ArrowUp", "do_command(THD*)"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused) == name
        assert name in detail(page)
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="Reset zoom").is_enabled()
    assert not frame(page, "page_cleaner", 0).first.is_visible()
    page.keyboard.press("Escape")
    assert frame(page, "page_cleaner", 0).first.is_visible()
    page.keyboard.press("Home")
    assert page.evaluate(focused) == "all"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.graph') !== null"), "the graph of B"


@pytest.mark.parametrize("width", [400, 1280])
def test_labels_fit_their_frames(browser: Browser, file: Path, width: int) -> None:
    page = open_page(browser, file, width=width)
    outside = page.eval_on_selector_all(
        ".frame > text:not(.narrow)",
        """all => all.filter(e => {
            const text = e.getBoundingClientRect(), box = e.previousSibling.getBoundingClientRect();
            return text.left < box.left || text.right > box.right + 1;
        }).map(e => e.textContent)""",
    )
    assert outside == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_script_it_is_a_picture(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert not page.locator(".flame-controls").is_visible()
    assert frame(page, "dispatch_command", 0).first.is_visible()
    assert page.locator(".frame > text:not(.narrow)").count() > 20
    context.close()


@pytest.mark.parametrize("dark", [False, True])
def test_labels_are_readable_on_every_shade(browser: Browser, file: Path, dark: bool) -> None:
    page = open_page(browser, file, dark=dark)
    for shade in page.eval_on_selector_all(".legend rect", "all => all.map(e => e.classList[0])"):
        paper = luminance(page, f".legend .{shade}", "fill")
        assert contrast(page, ".frame > text", "fill", paper) >= 4.5, shade
