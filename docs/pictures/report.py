"""Draw docs/report.png from a report's page: ``python -m docs.pictures.report PAGE``."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parents[1] / "report.png"
WIDTH, HEIGHT = 1180, 1540  # down to the differences from the base


def main() -> None:
    page_path = Path(sys.argv[1]).resolve()
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        # As root Chromium has no sandbox; the page is our own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(page_path.as_uri())
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
