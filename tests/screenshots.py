"""Pictures of the app as its visitors see it: every tab, on a desk and on a phone, by day and by night.

python -m tests.screenshots           # into runs/screenshots
python -m tests.screenshots --out DIR
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

import tyro
from playwright.sync_api import Browser, expect

from tests.browsing import PATIENCE, chromium
from tests.serving import App, serve


class View(NamedTuple):
    """One tab in the state that is worth a picture."""

    name: str
    query: str
    """Of the address that opens it."""
    ready: str
    """Selector of what is there when it can be photographed."""


VIEWS = (
    View("watch", "agent=breakout&seed=1&at=300", ".player canvas[data-step]"),
    View("watch-cartpole", "agent=cartpole&seed=1&at=100", ".player canvas[data-step]"),
    View("play", "play=breakout&seed=7", "#play-screen canvas"),
    View("retrain", "tab=retrain", "#learning-curve .curve"),
    View("zoo", "tab=zoo", ".zoo .card"),
    View("zoo-agent", "zoo=pong", "article.zoo .curve"),
    View("how", "tab=how", ".lesson section"),
)
SIZES = {"desk": (1280, 900), "phone": (390, 844)}
THEMES = ("light", "dark")


def photograph(browser: Browser, app: App, view: View, size: str, theme: str, out: Path) -> Path:
    """One picture of the whole page; returns where it is."""
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    page.goto(f"{app.url}?{view.query}&__theme={theme}")
    page.locator(view.ready).first.wait_for()
    page.wait_for_timeout(1500)  # for what moves into place
    path = out / f"{view.name}-{size}-{theme}.png"
    page.screenshot(path=path, full_page=True)
    context.close()
    return path


def main(out: Path = Path("runs/screenshots")) -> None:
    """Take all pictures.

    Args:
        out: directory for them.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, serve(Path(directory)) as app, chromium() as browser:
        for view in VIEWS:
            for size in SIZES:
                for theme in THEMES:
                    print(photograph(browser, app, view, size, theme, out))


if __name__ == "__main__":
    tyro.cli(main)
