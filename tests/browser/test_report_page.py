"""Test the HTML report in a real browser: it renders, loads nothing, clips nothing."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from millrace.analysis.compare.compare_run import compare_run
from millrace.report.run import html
from tests.support.browser_pages import (
    assert_nothing_clipped,
    box,
    contrast,
    luminance,
    open_page,
    said_and_requested,
)
from tests.support.builders import FINDINGS, RunBuilder, noisy, study
from tests.support.query_runs import QueryRun

pytestmark = pytest.mark.browser

SECTIONS = [
    "answer", "verdicts", "dependence", "results", "bars", "ratios", "count_time", "published",
    "disk", "options", "variables", "provenance", "host", "failures", "method",
]  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report with failures, two configurations, published figures and findings."""
    return html.write(compare_run(study()), tmp_path_factory.mktemp("report") / "study.html")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of 20 servers, some with very long names."""
    long_name = "mysql-8.4.{}-built-from-a-branch-with-a-name-that-goes-on-and-on-and-on"
    names = [long_name.format(n) if n % 4 == 0 else f"mysql-5.7.{n}" for n in range(1, 20)]
    load_s = {name: noisy(3 + n / 9, 5, seed=n) for n, name in enumerate(names)}
    builder = RunBuilder({"mysql-5.6.24": noisy(3.2, 5), **load_s}, findings=FINDINGS)
    directory = tmp_path_factory.mktemp("report")
    return html.write(compare_run(builder.build()), directory / "crowded.html")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of 7 servers x 5 tests x 3 numbers of clients."""
    run = QueryRun(statements=("BEGIN", "point_select", "COMMIT"), published="S3")
    return html.write(compare_run(run.build()), tmp_path_factory.mktemp("report") / "large.html")


def overlaps(page: Page, selector: str, first: str = "left", last: str = "right") -> int:
    """Return the number of texts in pictures that begin before the one in front of them ends."""
    found: int = page.eval_on_selector_all(
        selector,
        f"""all => all.flatMap(svg => {{
            const boxes = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
            boxes.sort((a, b) => a.{first} - b.{first});
            return boxes.slice(1).filter((box, n) => box.{first} < boxes[n].{last});
        }}).length""",
    )
    return found


def test_nothing_is_loaded_and_nothing_complains(browser: Browser, report: Path) -> None:
    assert said_and_requested(browser, report) == ([], [])


def test_the_answer_comes_first_and_the_sections_in_order(browser: Browser, report: Path) -> None:
    page = open_page(browser, report)
    tops = page.eval_on_selector_all(
        "section", "all => all.map(s => [s.id, s.getBoundingClientRect().top])"
    )
    assert [name for name, _ in tops] == SECTIONS
    assert [top for _, top in tops] == sorted(top for _, top in tops)
    assert page.inner_text("p.answer").startswith("Of 4 comparisons with mysql-5.6.24: ")
    assert page.is_visible("p.answer")


def test_every_finished_treatment_has_a_visible_bar(browser: Browser, report: Path) -> None:
    page = open_page(browser, report)
    bars = page.locator("#bars rect.bar")
    assert bars.count() == 5
    widths = [box(bars.nth(n))["width"] for n in range(5)]
    assert min(widths) > 100
    values = page.locator("#bars .row .value").all_inner_texts()
    rates = [float(v.split("\u00a0")[0].replace(",", "")) for v in values if v != "failed"]
    # Bars start at zero: lengths are proportional to the values.
    for width, rate in zip(widths, rates, strict=True):
        assert width / widths[0] == pytest.approx(rate / rates[0], rel=0.01)


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_clipped(browser: Browser, crowded: Path, width: int) -> None:
    page = open_page(browser, crowded, width=width)
    assert_nothing_clipped(
        page, ".chart .label, .chart .value, .verdicts li, p, summary", scrolls=True
    )
    # Tables that are wider than the page scroll within themselves.
    assert page.eval_on_selector_all(
        ".wide", "all => all.every(e => getComputedStyle(e).overflowX === 'auto')"
    )


@pytest.mark.parametrize("width", [400, 700, 1280])
def test_a_large_run_fits_the_page(browser: Browser, large: Path, width: int) -> None:
    page = open_page(browser, large, width=width)
    assert_nothing_clipped(page, "figure.plot, figure.plot text, .lines li, p, summary")


def test_a_large_run_begins_with_the_overview_and_folds_the_rest(
    browser: Browser, large: Path
) -> None:
    page = open_page(browser, large)
    cells = page.locator("#overview td.cell")
    assert cells.count() == 5 * 3 * 6
    assert page.locator("#overview td.base").count() == 5 * 3
    assert cells.first.is_visible()
    assert page.locator("#relative figure.plot").count() == 5
    assert page.locator("#relative .sign").count() == 5 * 3 * 7
    assert box(page.locator("#overview"))["height"] < 1300, "it is seen at a glance"
    assert page.locator("#results table").is_hidden()
    assert page.locator("#latencies figure.plot").count() == 15
    # The page is a few screens long, although it shows all measurements.
    assert page.evaluate("document.documentElement.scrollHeight") < 9000


def test_a_large_run_fits_the_paper(browser: Browser, large: Path) -> None:
    page = open_page(browser, large, width=680)
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert box(page.locator("#overview table"))["width"] <= 680


def test_closed_sections_are_printed_open(browser: Browser, large: Path) -> None:
    page = open_page(browser, large, width=680)
    heights = """all => all.map(details => Math.max(...[...details.children].slice(1).map(
        child => child.checkVisibility({contentVisibilityAuto: true})
            ? child.getBoundingClientRect().height : 0)))"""
    assert max(page.eval_on_selector_all("details:not([open])", heights)) == 0
    page.emulate_media(media="print")
    on_paper = page.eval_on_selector_all("details:not([open])", heights)
    assert on_paper
    assert min(on_paper) > 0


def test_overview_shows_verdicts_by_sign_and_word_too(browser: Browser, large: Path) -> None:
    page = open_page(browser, large)
    texts = page.eval_on_selector_all("#overview td.cell", "all => all.map(e => e.textContent)")
    words = ("regression", "improvement", "equivalent", "inconclusive", "may be chance")
    for text in texts:
        assert any(word in text for word in words)
        assert text[0] in "▼▲=?~"


@pytest.mark.parametrize("width", [400, 1280])
def test_labels_of_line_charts_do_not_overlap(browser: Browser, large: Path, width: int) -> None:
    page = open_page(browser, large, width=width)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert overlaps(page, "svg.up", "top", "bottom") == 0
    assert overlaps(page, "svg.across:not(.tilted)") == 0


@pytest.mark.parametrize("dark", [False, True])
def test_cells_of_the_overview_are_readable(browser: Browser, large: Path, dark: bool) -> None:
    page = open_page(browser, large, dark=dark)
    paper = luminance(page, "body", "backgroundColor")
    for selector in (".cell.regression", ".cell.improvement", ".cell.inconclusive"):
        # The tint of the cell lowers the contrast a little against the plain paper.
        assert contrast(page, selector, "color", paper) >= 5


def test_axis_labels_do_not_overlap(browser: Browser, crowded: Path) -> None:
    page = open_page(browser, crowded, width=400)
    assert overlaps(page, ".axis svg") == 0


@pytest.mark.parametrize("dark", [False, True])
def test_ink_is_readable(browser: Browser, report: Path, dark: bool) -> None:
    page = open_page(browser, report, dark=dark)
    paper = luminance(page, "body", "backgroundColor")
    assert paper < 0.05 if dark else paper > 0.9
    for selector in ("body", ".muted", ".regression", ".improvement", ".failed", "a"):
        assert contrast(page, selector, "color", paper) >= 4.5, selector
