"""How long a visitor waits: for the first picture of a game, for a place that was played already, for one that stalls.

    python -m benchmarks.first_frame

The app runs as visitors meet it, in a process of its own, and a real Chromium opens it on this machine: what a network
adds is left out. Every agent's game is opened once to warm the server up; each round then takes a seed that nobody has
asked for yet, and counts from the click on "Another game" to the first picture of that game on the canvas. A seek is a
jump back to the start of what was played, until its picture is there. A stall is a stretch of at least a quarter of a
second in which a playing game shows no new picture.
"""

import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import tyro
from playwright.sync_api import Page

import zoo
from benchmarks.results import machine, save
from tests.browsing import chromium, visit
from tests.serving import serve

STALL_SECONDS = 0.25

WATCHER = """
() => {
  const canvas = document.querySelector(".player canvas");
  window.shown = [];
  const put = CanvasRenderingContext2D.prototype.putImageData;
  CanvasRenderingContext2D.prototype.putImageData = function (...args) {
    put.apply(this, args);
    if (this.canvas !== canvas) return;
    window.shown.push([performance.now(), document.querySelector(".player .name").textContent]);
  };
}
"""
"""Notes when a picture is drawn, and of which game it is."""

SEEK = """
() => {
  const bar = document.querySelector(".player .seek");
  window.shown = [];
  window.asked = performance.now();
  bar.value = 0;
  bar.dispatchEvent(new Event("input"));
}
"""


class Wait(NamedTuple):
    """One thing that a visitor waited for."""

    agent: str
    what: str
    milliseconds: float


def first_picture(page: Page, seed: int) -> float:
    """Milliseconds from the click to the first picture of the game of the next seed."""
    page.evaluate("""() => {
      window.shown = [];
      const buttons = [...document.querySelectorAll("button")];
      const button = buttons.find((made) => made.textContent.trim() === "Another game");
      window.asked = performance.now();
      button.click();
    }""")
    found = "window.shown.find(([, name]) => name.endsWith(' seed ' + seed))"
    page.wait_for_function(f"(seed) => {found}", arg=seed)
    return page.evaluate(f"(seed) => {found}[0] - window.asked", seed)


def seek(page: Page) -> float:
    """Milliseconds until a jump back to the start shows its picture."""
    page.evaluate(SEEK)
    page.wait_for_function("window.shown.length")
    return page.evaluate("window.shown[0][0] - window.asked")


def stalls(page: Page, seconds: float) -> list[float]:
    """Milliseconds of each stall in some seconds of play."""
    page.evaluate("() => { window.shown = [[performance.now()]]; }")
    page.wait_for_timeout(1000 * seconds)
    times = page.evaluate("[...window.shown.map(([at]) => at), performance.now()]")
    gaps = [after - before for before, after in pairwise(times)]
    return [gap for gap in gaps if gap >= 1000 * STALL_SECONDS]


def main(rounds: int = 5, seconds: float = 60.0) -> None:
    """Open the app in Chromium, measure, and write results/first_frame.json.

    Args:
        rounds: games of each agent; the median counts.
        seconds: how long Pong is watched for stalls.
    """
    waits: list[Wait] = []
    first_seed = round(time.time()) % 10**6
    with tempfile.TemporaryDirectory() as directory, serve(Path(directory)) as app, chromium() as browser:
        for agent in zoo.entries():
            with visit(browser, app, f"?agent={agent}&seed={first_seed}") as page:
                page.locator(".player canvas[data-step]").first.wait_for()
                page.evaluate(WATCHER)
                for number in range(rounds):
                    waits.append(Wait(agent, "first picture", first_picture(page, first_seed + number + 1)))
                page.wait_for_function("Number(document.querySelector('.player .seek').max) > 60")
                waits += [Wait(agent, "seek", seek(page)) for _ in range(rounds)]
        with visit(browser, app, f"?agent=pong&seed={first_seed}") as page:
            page.locator(".player canvas[data-step]").first.wait_for()
            page.evaluate(WATCHER)
            found = stalls(page, seconds)
    save("first_frame", summary(waits, found, seconds))


def summary(waits: list[Wait], found: list[float], seconds: float) -> dict[str, Any]:
    """What was measured, printed and as it is kept."""
    for agent, what in dict.fromkeys((wait.agent, wait.what) for wait in waits):
        times = [wait.milliseconds for wait in waits if (wait.agent, wait.what) == (agent, what)]
        print(f"{agent}, {what}: median {statistics.median(times):.0f} ms, slowest {max(times):.0f} ms")
    print(f"pong, {seconds:.0f} s of play: {len(found)} stalls of {sum(found):.0f} ms together")
    about = {"machine": machine(), "waits": [wait._asdict() for wait in waits]}
    return about | {"stalls": {"seconds": seconds, "milliseconds": found}}


if __name__ == "__main__":
    tyro.cli(main)
