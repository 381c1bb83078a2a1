"""How soon the processes of a training are free when its visitor has had enough or has gone.

    pip install -r requirements-dev.txt
    python -m benchmarks.freed

A real Chromium trains CartPole on an app in a process of its own, and then presses Stop, closes the tab, or loses the
network: what is sent waits from then on, and no connection ends. Counted is from that moment until no worker's process
is left. A lost network is back four seconds later; counted is until a worker trains on.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import tyro
from playwright.sync_api import Browser, Page, expect

from benchmarks.results import PACKAGES, machine, save
from tests.browsing import PATIENCE, chromium
from tests.processes import wait_until
from tests.serving import App, serve
from tests.wire import Wire, wired

TRAINED_SECONDS = 3.0
AWAY_SECONDS = 4.0
STEPS = 5_000_000
WAYS = ("Stop is pressed", "the tab is closed", "the network is lost")


class Freed(NamedTuple):
    """One training's end."""

    way: str
    seconds: float
    """Until its processes were gone."""
    back_seconds: float | None = None
    """From the network's return until a worker was there again."""


def seconds_until(condition: Callable[[], object]) -> float:
    """How long it takes. Raises TimeoutError after a minute."""
    begun = time.monotonic()
    if not wait_until(condition, 60):
        raise TimeoutError("this takes more than a minute")
    return time.monotonic() - begun


def train(app: App, page: Page, port: int) -> None:
    """Has a training under way."""
    page.goto(f"http://127.0.0.1:{port}/?agent=cartpole&tab=retrain")
    page.get_by_label("Steps", exact=True).fill(str(STEPS))
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#train-status")).to_contain_text("Training CartPole", timeout=PATIENCE)
    page.wait_for_timeout(1000 * TRAINED_SECONDS)
    if not app.workers():
        raise RuntimeError("nothing is being trained")


def end(way: str, app: App, browser: Browser, wire: Wire) -> Freed:
    """One training, ended in that way."""

    def idle() -> bool:
        return not app.workers()

    page = browser.new_page()
    train(app, page, wire.port)
    if way == "Stop is pressed":
        page.get_by_role("button", name="Stop", exact=True).click(no_wait_after=True)
        freed = Freed(way, seconds_until(idle))
    elif way == "the tab is closed":
        page.close()
        return Freed(way, seconds_until(idle))
    else:
        wire.cut()
        gone = seconds_until(idle)
        page.wait_for_timeout(1000 * (AWAY_SECONDS - gone))
        wire.mend()
        freed = Freed(way, gone, seconds_until(app.workers))
    page.close()
    seconds_until(idle)
    return freed


def main(rounds: int = 5) -> None:
    """Measure and keep the result.

    Args:
        rounds: trainings for each way to end.
    """
    ends = []
    with (
        tempfile.TemporaryDirectory() as directory,
        serve(Path(directory)) as app,
        wired(urlsplit(app.url).port) as wire,
        chromium() as browser,
    ):
        for _ in range(rounds):
            for way in WAYS:
                ends.append(end(way, app, browser, wire))
                print(ends[-1])
    save("freed", {"machine": machine(*PACKAGES), "ends": [freed._asdict() for freed in ends]})


if __name__ == "__main__":
    tyro.cli(main)
