"""What opening the page costs a browser that has nothing of it yet: of the app, and of the static arcade.

    pip install -r requirements-dev.txt
    python -m benchmarks.page_weight                      # ten minutes, most of which make the static arcade
    python -m benchmarks.page_weight --checkout ../older  # twenty: another checkout, in turns with this one

The app runs as visitors meet it, the static arcade lies behind `python -m http.server`, which compresses nothing. Each
round starts a Chromium with an empty profile on this machine and opens the page; what a network adds is left out. All
is counted up to the first picture of the game on its canvas: requests, bytes as they came over the wire, headers
included, seconds since the navigation began, and seconds of the processor that all of Chromium's processes took.
"""

import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import tyro
from playwright.sync_api import Browser

from benchmarks.results import HERE, PACKAGES, machine, save
from tests.browsing import chromium
from tests.serving import serve, served_files

ROOT = HERE.parent
FIRST_PICTURE = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".player canvas[data-step]")) return;
  window.firstPicture ??= performance.now() / 1000;
  observer.disconnect();
}).observe(document, { subtree: true, childList: true, attributeFilter: ["data-step"] });
"""
"""Notes when the canvas has its first picture."""


class Opening(NamedTuple):
    """What one opening cost until the first picture."""

    requests: int
    bytes: int
    seconds: float
    processor_seconds: float


def opening(browser: Browser, url: str) -> Opening:
    """Opens a page in a profile of its own."""
    sent: dict[str, float] = {}
    came: list[tuple[float, float]] = []
    with closing(browser.new_context(viewport={"width": 1280, "height": 900})) as context:
        page = context.new_page()
        page.add_init_script(FIRST_PICTURE)
        session = context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", lambda told: sent.setdefault(told["requestId"], told["timestamp"]))
        session.on("Network.loadingFinished", lambda told: came.append((told["timestamp"], told["encodedDataLength"])))
        session.send("Network.enable")
        before = processor_seconds(browser)
        page.goto(url, wait_until="commit")
        seconds = page.wait_for_function("window.firstPicture", timeout=60_000).json_value()
        taken = processor_seconds(browser) - before
        end = min(sent.values()) + seconds
    return Opening(
        requests=sum(at <= end for at in sent.values()),
        bytes=round(sum(size for at, size in came if at <= end)),
        seconds=seconds,
        processor_seconds=taken,
    )


def processor_seconds(browser: Browser) -> float:
    """What all processes of a browser have taken so far."""
    session = browser.new_browser_cdp_session()
    told = session.send("SystemInfo.getProcessInfo")
    session.detach()
    return sum(process["cpuTime"] for process in told["processInfo"])


def commit_of(checkout: Path) -> str:
    """The name of what is checked out there."""
    command = ["git", "-C", checkout, "describe", "--always", "--dirty"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(rounds: int = 9, checkout: Path | None = None, agents: tuple[str, ...] = ("breakout", "cartpole")) -> None:
    """Open both pages in Chromium, measure, and write results/page_weight.json.

    Args:
        rounds: openings of each page; the median counts.
        checkout: another checkout of this repository, whose pages are opened in turns with this one's.
        agents: whose games the static arcade has.
    """
    pages: dict[tuple[str, str], str] = {}
    with ExitStack() as stack:
        for root in (ROOT, *([checkout.resolve()] if checkout else [])):
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if (root / "ui" / "site").is_dir():  # there was none at first
                make = [sys.executable, "-m", "ui.site", "--out", place / "site", "--agents", *agents]
                subprocess.run(make, cwd=root, check=True)
                pages["static arcade", commit_of(root)] = stack.enter_context(served_files(place / "site"))
            (place / "app").mkdir()
            stack.enter_context(suppress(AssertionError) if root != ROOT else nullcontext())  # it may end less tidily
            pages["app", commit_of(root)] = stack.enter_context(serve(place / "app", root=root)).url
        openings = []
        for number in range(rounds + 1):
            for (page, commit), url in pages.items():
                with chromium() as browser:
                    found = opening(browser, url)
                if number:  # the first opening finds a server that has just started
                    openings.append({"page": page, "commit": commit, **found._asdict()})
    save("page_weight", {"machine": machine(*PACKAGES), "openings": openings})


if __name__ == "__main__":
    tyro.cli(main)
