"""Pictures of the app as its visitors see it: every tab, on a desk and on a phone, light, dark and in forced colours.

python -m tests.screenshots                # into runs/screenshots
python -m tests.screenshots --site site    # those of a static arcade instead, which build-static has made
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import tyro
from playwright.sync_api import Browser, expect

from tests.browsing import PATIENCE, chromium
from tests.serving import serve, served_files


class View(NamedTuple):
    """One tab in the state that is worth a picture."""

    name: str
    address: str
    """Relative to the page's own."""
    ready: str
    """Selector of what is there when it can be photographed."""


VIEWS = (
    View("watch", "?agent=breakout&seed=1&at=300", ".player canvas[data-step]"),
    View("watch-cartpole", "?agent=cartpole&seed=1&at=100", ".player canvas[data-step]"),
    View("play", "?play=breakout&seed=7", "#play-screen canvas"),
    View("retrain", "?tab=retrain", "#learning-curve .curve"),
    View("zoo", "?tab=zoo", ".zoo .card"),
    View("zoo-agent", "?zoo=pong", "article.zoo .curve"),
    View("how", "?tab=how", ".lesson section"),
)
STATIC_VIEWS = (
    View("static-watch", "index.html?agent=breakout&seed=1&at=300", ".player canvas[data-step]"),
    View("static-watch-cartpole", "index.html?agent=cartpole&seed=1&at=100", ".player canvas[data-step]"),
    View("static-play", "play.html", ".human .go"),
    View("static-zoo", "zoo.html", ".zoo .card"),
    View("static-zoo-agent", "zoo-breakout.html", ".replay"),
    View("static-how", "how.html", ".timeline button"),
)
SIZES = {"desk": (1280, 900), "phone": (390, 844)}
MEDIA = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"color_scheme": "dark", "forced_colors": "active"},
}


def photograph(browser: Browser, url: str, view: View, size: str, theme: str, out: Path) -> Path:
    """One picture of the whole page; returns where it is."""
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, **MEDIA[theme])
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    page.goto(url + view.address)
    page.locator(view.ready).first.wait_for()
    page.wait_for_timeout(1500)  # for what moves into place
    path = out / f"{view.name}-{size}-{theme}.png"
    page.screenshot(path=path, full_page=True)
    context.close()
    return path


def main(out: Path = Path("runs/screenshots"), site: Path | None = None) -> None:
    """Take all pictures.

    Args:
        out: directory for them.
        site: a static arcade, whose pictures are taken instead.
    """
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if site:
            url = stack.enter_context(served_files(site))
        else:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = stack.enter_context(serve(directory)).url
        browser = stack.enter_context(chromium())
        for view in STATIC_VIEWS if site else VIEWS:
            for size in SIZES:
                for theme in MEDIA:
                    print(photograph(browser, url, view, size, theme, out))


if __name__ == "__main__":
    tyro.cli(main)
