"""How long a visitor waits: for a game's first picture, for a place that was played already, for a video.

    pip install -r requirements-dev.txt
    python -m benchmarks.waits

The app runs as visitors meet it, in a process of its own, and a real Chromium opens it on this machine: what a
network adds is left out. A cold server has just given its first answer, and nobody has opened it: there the page
itself is part of the wait, from its address to the first picture. Then every agent's game is opened once to warm the
server up; each round then watches for three seconds, takes a seed that nobody has asked for yet, and counts from the
click on "Another game" to the first picture of that game on the canvas. A seek is a jump back to the start of what
was played, until its picture is there. A stall is a stretch of at least a quarter of a second in which a playing game
shows no new picture. A video is a whole game of Pong as MP4, from the request to its last byte: of a game that nobody
has watched yet, or of one watched to its end.
"""

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import tyro
from playwright.sync_api import Browser, Page

import zoo
from benchmarks.results import PACKAGES, machine, save
from benchmarks.visitor import watched
from tests.browsing import chromium, visit
from tests.serving import App, serve
from ui.streaming.chunks import header_of

STALL_SECONDS = 0.25
WATCHED_SECONDS = 3.0

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


class Video(NamedTuple):
    """A whole game of Pong that was downloaded."""

    watched: bool
    steps: int
    seconds: float


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


def cold_picture(browser: Browser, agent: str) -> float:
    """Milliseconds from the page's address to the first picture of that agent's game, on a server that just started."""
    with (
        tempfile.TemporaryDirectory() as directory,
        serve(Path(directory)) as app,
        visit(browser, app, f"?agent={agent}") as page,
    ):
        page.locator(".player canvas[data-step]").first.wait_for()
        return page.evaluate("performance.now()")


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


def download(app: App, seed: int, *, seen: bool) -> Video:
    """A whole game of Pong."""
    game = {"agent": "pong", "seed": seed}
    with httpx.Client(base_url=app.url, timeout=300) as visitor:
        if seen:
            steps_of(visitor, game)
        asked = time.monotonic()
        visitor.get("arcade/video", params=game).raise_for_status()
        seconds = time.monotonic() - asked
        return Video(seen, steps_of(visitor, game), seconds)


def steps_of(visitor: httpx.Client, game: dict[str, Any]) -> int:
    """How many steps a game has, by watching it to its end."""
    return sum(len(header_of(chunk)["actions"]) for chunk in watched(visitor, game))


def main(rounds: int = 5, seconds: float = 60.0, agents: tuple[str, ...] = ()) -> None:
    """Open the app in Chromium, measure, and write results/waits.json.

    Args:
        rounds: games of each agent; the median counts.
        seconds: how long Pong is watched for stalls.
        agents: whose games are opened; all of the zoo's where none is named.
    """
    waits: list[Wait] = []
    first_seed = round(time.time()) % 10**6
    with chromium() as browser:  # before the server that stays: it would share the cores
        waits += [Wait(agent, "cold", cold_picture(browser, agent)) for agent in agents or zoo.entries()]
    with tempfile.TemporaryDirectory() as directory, serve(Path(directory)) as app, chromium() as browser:
        for agent in agents or zoo.entries():
            with visit(browser, app, f"?agent={agent}&seed={first_seed}") as page:
                page.locator(".player canvas[data-step]").first.wait_for()
                page.evaluate(WATCHER)
                for number in range(rounds):
                    page.wait_for_timeout(1000 * WATCHED_SECONDS)
                    waits.append(Wait(agent, "first picture", first_picture(page, first_seed + number + 1)))
                page.wait_for_function("Number(document.querySelector('.player .seek').max) > 60")
                waits += [Wait(agent, "seek", seek(page)) for _ in range(rounds)]
        with visit(browser, app, f"?agent=pong&seed={first_seed}") as page:
            page.locator(".player canvas[data-step]").first.wait_for()
            page.evaluate(WATCHER)
            found = stalls(page, seconds)
        videos = [download(app, first_seed + 100 + number, seen=bool(number % 2)) for number in range(2 * rounds)]
    result = {
        "machine": machine(*PACKAGES),
        "waits": [wait._asdict() for wait in waits],
        "stalls": {"seconds": seconds, "milliseconds": found},
        "videos": [video._asdict() for video in videos],
    }
    save("waits", result)


if __name__ == "__main__":
    tyro.cli(main)
