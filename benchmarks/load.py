"""Two hundred pages that are opened at once, forty visitors who watch, two hundred clicks, on a server of this machine.

    python -m benchmarks.load

A page is opened as Chromium does: it is asked once what it asks for until the first picture (the page, its scripts and
styles, gradio's events, the game's first file), and each visitor asks for the same, over six connections. It has its
first picture when all of that has come; drawing it is not measured. The pages come within ten seconds, once alone and
once while one more visitor asks for sixty videos at once, again and again, of games that nobody has watched. They have
addresses of their own, as behind a proxy, and their own work is done by the machine that serves them.

Who watches does what the player does: asks for one chunk after the other until it has some seconds ahead, and shows
them at the game's own speed, over and over, once there are enough to begin with. It stalls where it then has too few.
They come within five seconds and share ten games. A click asks for a game's video through the API; it counts as
answered or as refused, with a sentence, or as lost. Both come several times, each time with other games, so that what
a server keeps of games would show in its memory.
"""

import asyncio
import itertools
import math
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import tyro

from benchmarks.opening import Asked, all_opened, asked_by_chromium
from benchmarks.results import PACKAGES, machine, save
from tests.processes import memory
from tests.serving import serve
from ui.streaming.chunks import header_of

AHEAD_SECONDS = 12.0
START_SECONDS = 1.5
"""As in ui/watch/live.js and ui/watch/player.js."""
ARRIVAL_SECONDS = 5.0
LOOK_SECONDS = 0.05
AGENTS, SEEDS = ("pong", "breakout"), 5
"""The agents that are watched, and how many games of each."""
CLICKED = 5
"""Games that are clicked."""
BACKLOG_SEED = 500_000
"""The first of the games whose videos nobody else asks for."""


class Visit(NamedTuple):
    """What one visitor met."""

    first_chunk: float
    """Seconds from the click to the first picture."""
    latencies: list[float]
    """Seconds of each request."""
    stalled: float
    """Seconds without a picture to show, after the first."""
    shown: float
    """Seconds of play that were shown."""


async def watch(client: httpx.AsyncClient, game: dict[str, Any], delay: float, seconds: float) -> Visit:
    """Watches one game for so long."""
    await asyncio.sleep(delay)
    latencies, ahead, stalled, shown, n, rate, first, rolling = [], 0.0, 0.0, 0.0, 0, 30, 0.0, False
    came = looked = time.monotonic()
    while looked - came < seconds:
        if ahead < AHEAD_SECONDS:
            asked = time.monotonic()
            answer = await client.get("arcade/chunk", params={**game, "n": n, "ahead": int(ahead)})
            latencies.append(time.monotonic() - asked)
            if answer.status_code == 200:
                header = header_of(answer.content)
                rate = header.get("game", {}).get("rate", rate)
                ahead += sum(header["pictures"]) / rate
                n = 0 if header["over"] else n + 1
                first = first or time.monotonic() - came
            elif answer.status_code != 202:
                raise RuntimeError(f"{answer.status_code}: {answer.text}")
        else:
            await asyncio.sleep(LOOK_SECONDS)
        passed = time.monotonic() - looked
        looked += passed
        if rolling:
            shown += min(passed, ahead)
            stalled += max(0.0, passed - ahead)
            ahead = max(0.0, ahead - passed)
        elif shown:  # before it has begun it waits, but does not stall
            stalled += passed
        rolling = ahead > 0 if rolling else ahead >= START_SECONDS
    return Visit(first, latencies, stalled, shown)


async def crowd(url: str, visitors: int, seconds: float, turn: int) -> list[Visit]:
    """All visitors, one after the other and then at once."""
    games = [{"agent": agent, "seed": SEEDS * turn + seed} for agent, seed in itertools.product(AGENTS, range(SEEDS))]
    limits = httpx.Limits(max_connections=visitors)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        visits = [
            watch(client, games[i % len(games)], ARRIVAL_SECONDS * i / visitors, seconds) for i in range(visitors)
        ]
        return await asyncio.gather(*visits)


async def click(client: httpx.AsyncClient, seed: int) -> str:
    """One click through the API; how it ended."""
    try:
        asked = await client.post("gradio_api/call/watch", json={"data": ["cartpole", seed]})
        if asked.status_code != 200:
            return "refused" if asked.json().get("detail") else "lost"
        told = await client.get(f"gradio_api/call/watch/{asked.json()['event_id']}")
        return "answered" if "event: complete" in told.text else "refused" if "event: error" in told.text else "lost"
    except httpx.HTTPError:
        return "lost"


async def clicks(url: str, count: int, turn: int) -> Counter[str]:
    """So many at once."""
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=0)  # each is somebody else's
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        return Counter(await asyncio.gather(*(click(client, CLICKED * turn + i % CLICKED) for i in range(count))))


async def ask_for_videos(url: str, at_once: int) -> None:
    """One visitor, who asks for so many at once, again and again, and does not mind how many are refused."""
    headers, limits = {"x-forwarded-for": "10.9.9.9"}, httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=300, limits=limits) as client:
        for first in itertools.count(BACKLOG_SEED, at_once):
            games = ({"agent": "pong", "seed": first + i} for i in range(at_once))
            await asyncio.gather(*(client.get("arcade/video", params=game) for game in games))


async def beside_backlog(
    url: str, asked: list[Asked], *, pages: int, within: float, backlog: int
) -> list[float | None]:
    """How long each page waits while another visitor's slow requests are under way."""
    slow = asyncio.create_task(ask_for_videos(url, backlog))
    await asyncio.sleep(1.0)
    try:
        return await all_opened(url, asked, pages=pages, seconds=within)
    finally:
        slow.cancel()


def told(waits: list[float | None]) -> dict[str, float]:
    """What is kept of how long each page waited. Those that got no picture are counted, and waited for ever."""
    ordered = sorted(math.inf if wait is None else wait for wait in waits)
    came = [wait for wait in ordered if wait < math.inf]
    if not came:
        raise SystemExit("error: no page got its first picture, so that there is nothing to keep")
    p95 = ordered[round(0.95 * (len(ordered) - 1))]
    return {"median": statistics.median(ordered), "p95": p95, "slowest": came[-1], "lost": waits.count(None)}


def main(
    pages: int = 200,
    within: float = 10.0,
    backlog: int = 60,
    visitors: int = 40,
    seconds: float = 60.0,
    count: int = 200,
    times: int = 6,
) -> None:
    """Measure, and write results/load.json and README.md.

    Args:
        pages: that are opened.
        within: seconds in which they come.
        backlog: videos that one visitor asks for at once meanwhile, the second time.
        visitors: who watch at the same time.
        seconds: how long each watches.
        count: clicks at the same moment.
        times: that who watch and click come.
    """
    visits, outcomes, taken = [], Counter(), []
    with tempfile.TemporaryDirectory() as directory, serve(Path(directory)) as app:
        before = memory(app.pid)
        asked = asked_by_chromium(app)
        alone = asyncio.run(all_opened(app.url, asked, pages=pages, seconds=within))
        beside = asyncio.run(beside_backlog(app.url, asked, pages=pages, within=within, backlog=backlog))
        for turn in range(times):
            visits += asyncio.run(crowd(app.url, visitors, seconds, turn))
            outcomes += asyncio.run(clicks(app.url, count, turn))
            taken.append(memory(app.pid))
    latencies = sorted(latency for visit in visits for latency in visit.latencies)
    first = [visit.first_chunk for visit in visits]
    result = {
        "machine": machine(*PACKAGES),
        "opened": {
            "pages": pages,
            "within": within,
            "requests": len(asked),
            "backlog": backlog,
            "alone": told(alone),
            "beside": told(beside),
        },
        "visitors": visitors,
        "times": times,
        "seconds": seconds,
        "stalled": sum(visit.stalled > LOOK_SECONDS for visit in visits),
        "longest_stall": max(visit.stalled for visit in visits),
        "first_picture": {"median": statistics.median(first), "slowest": max(first)},
        "request": {"median": statistics.median(latencies), "p95": latencies[round(0.95 * (len(latencies) - 1))]},
        "clicks": dict(outcomes),
        "memory_mb": {"before": before, "after": taken},
    }
    save("load", result)


if __name__ == "__main__":
    tyro.cli(main)
