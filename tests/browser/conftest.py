"""Provide a real browser for the tests that look at pages."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    with sync_playwright() as playwright:
        # As root Chromium has no sandbox; the pages are our own files.
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        launched.new_page()  # see looking.shared_tab
        yield launched
        launched.close()
