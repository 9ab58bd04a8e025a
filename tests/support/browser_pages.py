"""Open pages and read what they show."""

from pathlib import Path

from playwright.sync_api import Browser, FloatRect, Locator, Page


def open_page(browser: Browser, path: Path, *, width: int = 1280, dark: bool = False) -> Page:
    """Open a page in the tab that tests share: another one would be another process."""
    page = shared_tab(browser)
    page.mouse.move(0, 0)
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media="screen", color_scheme="dark" if dark else "light")
    page.goto(path.as_uri())
    return page


def shared_tab(browser: Browser) -> Page:
    return browser.contexts[0].pages[0]


def said_and_requested(browser: Browser, path: Path) -> tuple[list[str], list[str]]:
    """Return the messages that a page logs, and the addresses that it requests."""
    page = browser.new_page()
    said: list[str] = []
    requested: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_load_state("load")
    page.close()
    others = [url for url in requested if not url.startswith("data:") and url != path.as_uri()]
    return said, others


def box(locator: Locator) -> FloatRect:
    """Return the place and size of a visible element, in pixels."""
    found = locator.bounding_box()
    assert found is not None
    return found


def assert_nothing_clipped(page: Page, selector: str, *, scrolls: bool = False) -> None:
    """Check that the page, with all details open, and what matches lie within its width.

    With ``scrolls``, no matching element may be wider inside than it is shown.
    """
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = page.eval_on_selector_all(
        selector,
        """(all, scrolls) => all.filter(e => {
            const box = e.getBoundingClientRect();
            return box.left < -1 || box.right > innerWidth + 1
                || scrolls && e.scrollWidth > e.clientWidth + 1;
        }).map(e => e.textContent)""",
        scrolls,
    )
    assert outside == []


def contrast(page: Page, selector: str, ink: str, paper: float) -> float:
    """Return the ratio (WCAG 2.2) of an ink, a computed colour, to a paper of that luminance."""
    of_ink = luminance(page, selector, ink)
    return (max(of_ink, paper) + 0.05) / (min(of_ink, paper) + 0.05)


def luminance(page: Page, selector: str, name: str) -> float:
    """Return the relative luminance (WCAG 2.2) of the first matching element's computed colour."""
    colour = page.eval_on_selector(selector, f"e => getComputedStyle(e).{name}")
    channels = [int(part) / 255 for part in colour.strip("rgb()").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
