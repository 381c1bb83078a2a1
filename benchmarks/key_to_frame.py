"""From a key to the picture that shows it: the app on this machine, played in a real Chromium.

    pip install -r requirements-dev.txt
    python -m benchmarks.key_to_frame

A press counts from the page's keydown until the canvas is drawn for the first step that took the key's action; what the
screen itself takes comes on top. The server steps Pong 15 times a second whatever is pressed, so a press waits half a
step, 33 ms, on average, however fast all else is.
"""

import random
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import tyro
from playwright.sync_api import Page

from benchmarks.results import PACKAGES, machine, save
from tests.browsing import PATIENCE, chromium, visit
from tests.serving import serve
from ui.streaming.chunks import ACTIONS

ACTION = ACTIONS["ALE/Pong-v5"].index("up")
STEP = 1000 / 15
"""Milliseconds."""

WATCH = """
canvas => {
  window.pressed = null;
  window.delays = [];
  window.drawn = [];
  canvas.addEventListener("keydown", (event) => { if (!event.repeat) window.pressed = performance.now(); }, true);
  new MutationObserver(() => {
    window.drawn.push(performance.now());
    if (window.pressed === null || canvas.dataset.action !== "ACTION") return;
    window.delays.push(performance.now() - window.pressed);
    window.pressed = null;
  }).observe(canvas, { attributeFilter: ["data-step"] });
}
"""
"""The step is written after the picture has been drawn and before the action; observers are called after both."""


class Delays(NamedTuple):
    """Milliseconds."""

    presses: list[float]
    """From a key to its picture."""
    steps: list[float]
    """From one step's picture to the next one's."""


def measure(page: Page, presses: int) -> Delays:
    """Plays Pong by pressing one key at random moments."""
    canvas, waiting = page.locator("#play-screen canvas"), random.Random(0)
    page.locator("#play-screen .go").click()
    page.locator(".human[data-state=playing]").wait_for()
    canvas.evaluate(WATCH.replace("ACTION", str(ACTION)))
    for number in range(1, presses + 1):
        page.wait_for_timeout(4 * STEP + waiting.uniform(0, STEP))
        page.keyboard.down("ArrowUp")
        page.wait_for_function("count => window.delays.length >= count", arg=number, timeout=PATIENCE)
        page.keyboard.up("ArrowUp")
    drawn = page.evaluate("window.drawn")
    steps = [later - earlier for earlier, later in pairwise(drawn)]
    return Delays(page.evaluate("window.delays"), steps)


def main(presses: int = 40) -> None:
    """Start the app and a browser, play, and write results/key_to_frame.json.

    Args:
        presses: how many keys count.
    """
    with (
        tempfile.TemporaryDirectory() as directory,
        serve(Path(directory)) as app,
        chromium() as browser,
        visit(browser, app, "?play=pong&seed=7") as page,
    ):
        delays = measure(page, presses)
    save("key_to_frame", {"machine": machine(*PACKAGES), **delays._asdict()})


if __name__ == "__main__":
    tyro.cli(main)
