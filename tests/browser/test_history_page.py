"""Test the page of histories in a real browser."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from millrace.analysis.history.overview import group_changes, series_view
from millrace.output_files import PAGE, write_text
from millrace.report.history import as_html
from tests.support.browser_pages import (
    assert_nothing_clipped,
    contrast,
    luminance,
    open_page,
    said_and_requested,
)
from tests.support.history_points import OTHER_STATE, SERIES, STATE, STATES, history, stepping
from tests.unit.report.test_history import CHANGES

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    states = [STATE.id] * 50 + [OTHER_STATE.id] * 30
    other = replace(SERIES, id="2", metric="p95", title="95th percentile of the latency")
    series = [
        series_view(history(stepping((40, 0.9)), states), CHANGES, STATES, "nightly · throughput"),
        series_view(history(stepping(n=300), series=other), [], STATES, "nightly · latency"),
    ]
    found = group_changes(
        [change for one in series for change in one.changes], {("local", "v40"): 12}
    )
    path = tmp_path_factory.mktemp("history") / "page.html"
    return write_text(path, as_html(series, found), PAGE)


def test_nothing_is_loaded_and_nothing_complains(browser: Browser, page_file: Path) -> None:
    assert said_and_requested(browser, page_file) == ([], [])


@pytest.mark.parametrize("width", [400, 700, 1280])
def test_nothing_is_clipped(browser: Browser, page_file: Path, width: int) -> None:
    page = open_page(browser, page_file, width=width)
    assert_nothing_clipped(page, "p, li, h2, .plot text")


@pytest.mark.parametrize("dark", [False, True])
def test_marks_can_be_read(browser: Browser, page_file: Path, dark: bool) -> None:
    page = open_page(browser, page_file, dark=dark)
    paper = luminance(page, "body", "backgroundColor")
    for style in ("break", "inconclusive", "regression", "no-verdict"):
        assert contrast(page, f".marker.{style} text", "fill", paper) >= 4.5


def test_a_change_is_marked_where_it_is(browser: Browser, page_file: Path) -> None:
    page = open_page(browser, page_file)
    lines = page.eval_on_selector_all(
        ".marker line", "all => all.map(e => e.getBoundingClientRect().x)"
    )
    (field, *_) = page.eval_on_selector_all(
        ".field", "all => all.map(e => e.getBoundingClientRect()).map(r => [r.x, r.width])"
    )
    # The environment changes before the 51st of 80 points, the level before the 21st, 41st ...
    places = [50, 20, 40, 60, 70]
    assert lines == pytest.approx([field[0] + field[1] * at / 80 for at in places], abs=2)
