"""The app in a real browser: a page that watches over itself."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.serving import App

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: install it (Debian: apt install chromium)")

PATIENCE = 60_000
"""Milliseconds that a busy machine may take."""

CUT_OFF = ("AbortError", "Unexpected error Connection errored out.")
"""How what gradio's client writes to the console begins when a page is left before all of its answers have come."""

LEAVING: WeakSet[Page] = WeakSet()
"""Those that are being left."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


@contextmanager
def visit(browser: Browser, app: App, query: str = "") -> Iterator[Page]:
    """The page, just opened with that query; nothing that happens on it may be an error or leave this machine."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened, wrong = context.new_page(), []
    opened.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    opened.on("console", lambda message: wrong.append(message.text) if is_wrong(message) else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: None if is_ours(request.url, app) else wrong.append(request.url))
    opened.goto(app.url + query)
    yield opened
    context.close()
    assert not wrong, wrong


@contextmanager
def leaving(page: Page) -> Iterator[None]:
    """While the page is left for another: whoever leaves need not wait for what was asked."""
    LEAVING.add(page)
    yield
    LEAVING.remove(page)


def is_wrong(message: ConsoleMessage) -> bool:
    """Whether a line of the console is an error, but for an answer that was cut off by leaving."""
    return message.type == "error" and not (message.page in LEAVING and message.text.startswith(CUT_OFF))


def is_ours(url: str, app: App) -> bool:
    """Whether an address is the app's, or none that leaves the page."""
    return url.startswith((app.url, "data:", "blob:"))
