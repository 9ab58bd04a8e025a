"""The HTML report in a real browser: it renders, loads nothing, clips nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from millrace.analysis.judge import judge
from millrace.report import html
from tests.unit.analysis.builders import FINDINGS, RunBuilder, noisy, study

pytestmark = pytest.mark.browser

SECTIONS = [
    "answer", "results", "bars", "ratios", "count_time", "published", "disk", "options",
    "variables", "provenance", "host", "failures", "method",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    with sync_playwright() as playwright:
        # As root Chromium has no sandbox; the page is our own file and holds no script.
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with failures, two configurations, published figures and findings."""
    return html.write(judge(study()), tmp_path_factory.mktemp("report") / "study.html")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of 20 servers, some with very long names."""
    long_name = "mysql-8.4.{}-built-from-a-branch-with-a-name-that-goes-on-and-on-and-on"
    names = [long_name.format(n) if n % 4 == 0 else f"mysql-5.7.{n}" for n in range(1, 20)]
    load_s = {name: noisy(3 + n / 9, 5, seed=n) for n, name in enumerate(names)}
    builder = RunBuilder({"mysql-5.6.24": noisy(3.2, 5), **load_s}, findings=FINDINGS)
    directory = tmp_path_factory.mktemp("report")
    return html.write(judge(builder.build()), directory / "crowded.html")


def open_page(browser: Browser, path: Path, *, width: int = 1280, dark: bool = False) -> Page:
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    page.goto(path.as_uri())
    return page


def test_nothing_is_loaded_and_nothing_complains(browser: Browser, report: Path) -> None:
    page = browser.new_page()
    said: list[str] = []
    requested: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    page.goto(report.as_uri())
    page.wait_for_load_state("load")
    page.close()
    assert said == []
    assert [url for url in requested if not url.startswith("data:")] == [report.as_uri()]


def test_the_answer_comes_first_and_the_sections_in_order(browser: Browser, report: Path) -> None:
    page = open_page(browser, report)
    tops = page.eval_on_selector_all(
        "section", "all => all.map(s => [s.id, s.getBoundingClientRect().top])"
    )
    assert [name for name, _ in tops] == SECTIONS
    assert [top for _, top in tops] == sorted(top for _, top in tops)
    assert "Compared with" in page.inner_text("p.answer")
    assert page.is_visible("p.answer")
    page.close()


def test_every_finished_treatment_has_a_visible_bar(browser: Browser, report: Path) -> None:
    page = open_page(browser, report)
    bars = page.locator("#bars rect.bar")
    assert bars.count() == 5
    widths = [(bars.nth(n).bounding_box() or {"width": 0})["width"] for n in range(5)]
    assert min(widths) > 100
    values = page.locator("#bars .row .value").all_inner_texts()
    rates = [float(v.split("\u00a0")[0].replace(",", "")) for v in values if v != "failed"]
    # Bars start at zero: lengths are as the values.
    for width, rate in zip(widths, rates, strict=True):
        assert width / widths[0] == pytest.approx(rate / rates[0], rel=0.01)
    page.close()


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_clipped(browser: Browser, crowded: Path, width: int) -> None:
    page = open_page(browser, crowded, width=width)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.eval_on_selector_all(
        ".chart .label, .chart .value, .verdicts li, p, summary",
        """all => all.filter(e => {
            const box = e.getBoundingClientRect();
            return box.left < -1 || box.right > innerWidth + 1 || e.scrollWidth > e.clientWidth + 1;
        }).map(e => e.textContent)""",
    )
    assert outside == []
    # Tables that are wider than the page scroll within themselves.
    assert page.eval_on_selector_all(
        ".wide", "all => all.every(e => getComputedStyle(e).overflowX === 'auto')"
    )
    page.close()


def test_axis_labels_do_not_overlap(browser: Browser, crowded: Path) -> None:
    page = open_page(browser, crowded, width=400)
    overlaps = page.eval_on_selector_all(
        ".axis svg",
        """all => all.flatMap(svg => {
            const boxes = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
            return boxes.slice(1).filter((box, n) => box.left < boxes[n].right);
        }).length""",
    )
    assert overlaps == 0
    page.close()


def test_dark_mode_has_dark_paper_and_readable_ink(browser: Browser, report: Path) -> None:
    page = open_page(browser, report, dark=True)
    paper = luminance(page, "body", "backgroundColor")
    assert paper < 0.05
    for selector in ("body", ".muted", ".regression", ".improvement", ".failed", "a"):
        ink = luminance(page, selector, "color")
        assert (ink + 0.05) / (paper + 0.05) >= 4.5
    page.close()


def test_light_mode_has_readable_ink(browser: Browser, report: Path) -> None:
    page = open_page(browser, report)
    paper = luminance(page, "body", "backgroundColor")
    assert paper > 0.9
    for selector in ("body", ".muted", ".regression", ".improvement", ".failed", "a"):
        ink = luminance(page, selector, "color")
        assert (paper + 0.05) / (ink + 0.05) >= 4.5
    page.close()


def luminance(page: Page, selector: str, name: str) -> float:
    """Relative luminance (WCAG 2.2) of a computed colour of the first such element."""
    colour = page.eval_on_selector(selector, f"e => getComputedStyle(e).{name}")
    channels = [int(part) / 255 for part in colour.strip("rgb()").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
