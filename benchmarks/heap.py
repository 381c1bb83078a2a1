"""Whether the page's memory grows in the browser: games one after another, and Chromium's own figures after each.

    pip install -r requirements-dev.txt
    python -m benchmarks.heap                                 # half an hour
    python -m benchmarks.heap --minutes 2 --seconds 10

One page stays open and plays at four times the speed, a game of each agent in turn, each with a seed of its own and
with another age of the agent beside it. After every game the garbage is collected and a line is printed: megabytes of
the JavaScript heap, of what its buffers hold outside it (chunks and pictures), and how many nodes and listeners the
page has.
"""

import itertools
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import tyro
from playwright.sync_api import CDPSession, Page, expect

import zoo
from tests.browsing import chromium, visit
from tests.serving import serve

MEGABYTE = 2**20


class Heap(NamedTuple):
    """What Chromium counts of a page."""

    heap_mb: float
    buffers_mb: float
    nodes: int
    listeners: int


def heap_of(devtools: CDPSession) -> Heap:
    """What is left once the garbage is collected."""
    devtools.send("HeapProfiler.collectGarbage")
    used = devtools.send("Runtime.getHeapUsage")
    counted = devtools.send("Memory.getDOMCounters")
    return Heap(
        heap_mb=round(used["usedSize"] / MEGABYTE, 1),
        buffers_mb=round(used["backingStorageSize"] / MEGABYTE, 1),
        nodes=counted["nodes"],
        listeners=counted["jsEventListeners"],
    )


def play(page: Page, agent: str, seed: int, seconds: float) -> None:
    """Watches a game for so long at most, with the agent's first snapshot beside it."""
    page.locator("#watch-seed input").fill(str(seed))
    page.get_by_role("radio", name=agent, exact=True).check(force=True)
    page.locator("#watch-seed input").press("Enter")
    expect(page.locator(".player .name").first).to_contain_text(f"seed {seed}")
    page.get_by_label("Beside it:").select_option(str(zoo.entries()[agent].snapshots[0]))
    page.wait_for_timeout(1000 * seconds)


def main(minutes: float = 30.0, seconds: float = 30.0) -> None:
    """Play games and print what the page takes.

    Args:
        minutes: how long.
        seconds: of each game.
    """
    agents = itertools.cycle(zoo.entries())
    with (
        tempfile.TemporaryDirectory() as directory,
        serve(Path(directory)) as app,
        chromium() as browser,
        visit(browser, app, "?speed=4") as page,
    ):
        page.locator(".player canvas[data-step]").first.wait_for()
        devtools = page.context.new_cdp_session(page)
        begun = time.monotonic()
        for seed in itertools.count():
            if time.monotonic() - begun > 60 * minutes:
                break
            agent = next(agents)
            play(page, agent, seed, seconds)
            told = ", ".join(f"{name} {value:,}" for name, value in heap_of(devtools)._asdict().items())
            print(f"{(time.monotonic() - begun) / 60:.1f} min, {agent}, seed {seed}: {told}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
