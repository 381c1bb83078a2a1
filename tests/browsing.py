"""The app in a real browser: a page that watches over itself."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from tests.processes import wait_until
from tests.serving import App

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: install it (Debian: apt install chromium)")

PATIENCE = 60_000
"""Milliseconds that a busy machine may take."""

ANSWERS: WeakKeyDictionary[Page, set[Request]] = WeakKeyDictionary()
"""What of gradio's answers is under way, by the page that asked."""


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
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: None if is_ours(request.url, app) else wrong.append(request.url))
    answers = ANSWERS[opened] = set()
    opened.on("request", lambda request: answers.add(request) if "/queue/data" in request.url else None)
    for ended in ("requestfinished", "requestfailed"):
        opened.on(ended, lambda request: answers.discard(request))
    opened.goto(app.url + query)
    yield opened
    context.close()
    assert not wrong, wrong


def settle(page: Page) -> None:
    """Waits until what the page asked for has come: an answer that is cut off, when it is left, is an error to it."""
    page.wait_for_function("performance.getEntriesByType('resource').some(each => each.name.includes('/queue/data'))")
    assert wait_until(lambda: page.wait_for_timeout(100) or not ANSWERS[page], PATIENCE / 1000)


def reload(page: Page) -> None:
    """Loads the page again, once it has settled."""
    settle(page)
    page.reload()


def is_ours(url: str, app: App) -> bool:
    """Whether an address is the app's, or none that leaves the page."""
    return url.startswith((app.url, "data:", "blob:"))
