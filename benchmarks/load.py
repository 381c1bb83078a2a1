"""Forty visitors who watch at once, then two hundred clicks at once, and all of it again, on a server of this machine.

    python -m benchmarks.load

A visitor does what the player does: asks for one chunk after the other until it has some seconds ahead, and shows them
at the game's own speed, over and over, once there are enough to begin with. It stalls where it then has too few. The
visitors come within five seconds and share ten games; their own work is done by the machine that serves them. A click
asks for a game's video through the API; it counts as answered or as refused, with a sentence, or as lost. Each time
the games are others, so that what a server keeps of games would show in its memory.
"""

import asyncio
import statistics
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import tyro

from benchmarks.results import PACKAGES, machine, save
from tests.processes import memory
from tests.serving import serve
from ui.broadcast.chunks import header_of

AHEAD_SECONDS = 12.0
START_SECONDS = 1.5
"""As in ui/watch/live.js and ui/watch/player.js."""
ARRIVAL_SECONDS = 5.0
LOOK_SECONDS = 0.05
AGENTS, SEEDS = ("pong", "breakout"), 5
"""The agents that are watched, and how many games of each."""
CLICKED = 5
"""Games that are clicked."""


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
    games = [{"agent": agent, "seed": SEEDS * turn + seed} for agent, seed in product(AGENTS, range(SEEDS))]
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


def main(visitors: int = 40, seconds: float = 60.0, count: int = 200, times: int = 6) -> None:
    """Measure, and write results/load.json and README.md.

    Args:
        visitors: who watch at the same time.
        seconds: how long each watches.
        count: clicks at the same moment.
        times: that all of them come.
    """
    visits, outcomes, taken = [], Counter(), []
    with tempfile.TemporaryDirectory() as directory, serve(Path(directory)) as app:
        before = memory(app.pid)
        for turn in range(times):
            visits += asyncio.run(crowd(app.url, visitors, seconds, turn))
            outcomes += asyncio.run(clicks(app.url, count, turn))
            taken.append(memory(app.pid))
    latencies = sorted(latency for visit in visits for latency in visit.latencies)
    first = [visit.first_chunk for visit in visits]
    result = {
        "machine": machine(*PACKAGES),
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
