"""Whether the app's memory grows: trainings and games through a live server, and what it takes after each tenth.

    python -m benchmarks.endurance                                # 50 trainings, 200 games
    python -m benchmarks.endurance --trainings 2 --games 10

A training is short, shows its two games, and is that of a new visitor; games are those of the agents named, watched to
their end or for so many chunks. Kept are the memory of the server's own process, what of it are chunks of games,
its threads, its open files, and the megabytes that its temporary files take. Linux alone, since it reads /proc.
"""

import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import httpx
import tyro
from gradio_client import Client

from benchmarks.results import PACKAGES, machine, save
from benchmarks.visitor import watched
from tests.serving import App, serve
from training.recipes import RECIPES
from ui.settings import SETTINGS

PATIENCE = 300.0
"""Seconds that a single answer may take."""


class State(NamedTuple):
    """What the server takes at a moment: its own process, and the files that it has written."""

    after: str
    memory_mb: int
    threads: int
    chunks_mb: float
    """Of the memory, what chunks of games take that are kept for whoever watches them next."""
    open_files: int
    files_mb: float


def train(app: App, steps: int, number: int) -> None:
    """One visitor's short training, with the games before and after it."""
    recipe = RECIPES["cartpole"]
    changes = {"steps": steps, "seed": number}
    values = [changes.get(setting.field, setting.of(recipe)) for setting in SETTINGS]
    with tempfile.TemporaryDirectory() as directory:
        visitor = Client(app.url, verbose=False, download_files=directory, analytics_enabled=False)
        visitor.submit("cartpole", *values, api_name="/train").result(PATIENCE)
        visitor.submit(api_name="/compare").result(PATIENCE)
        visitor.close()


def watch(app: App, agent: str, seed: int, chunks: int) -> None:
    """One game, as the player fetches it: chunk after chunk, to its end or for `chunks` of them."""
    with httpx.Client(base_url=app.url, timeout=PATIENCE) as visitor:
        for _ in islice(watched(visitor, {"agent": agent, "seed": seed}), chunks):
            pass


def state(app: App, after: str) -> State:
    """What the server takes at this moment."""
    process = Path(f"/proc/{app.pid}")
    lines = (line.split() for line in (process / "status").read_text().splitlines())
    told = {words[0]: int(words[1]) for words in lines if words[0] in ("VmRSS:", "Threads:")}
    files = sum(1 for _ in (process / "fd").iterdir())
    written = sum(path.stat().st_size for path in (app.output.parent / "tmp").rglob("*") if path.is_file())
    chunks = httpx.get(f"{app.url}healthz", timeout=PATIENCE).json()["chunks_mb"]
    return State(after, told["VmRSS:"] // 1024, told["Threads:"], chunks, files, round(written / 2**20, 1))


def in_tenths(app: App, what: str, count: int, act: Callable[[int], None]) -> Iterator[State]:
    """Does something `count` times, and looks at the server after each tenth."""
    tenths = {round(count * tenth / 10) for tenth in range(1, 11)}
    for number in range(1, count + 1):
        act(number)
        if number in tenths:
            yield state(app, f"{number} {what}")


def main(
    trainings: int = 50,
    games: int = 200,
    steps: int = 20_000,
    agents: tuple[str, ...] = ("cartpole", "pendulum", "pong"),
    chunks: int = 60,
) -> None:
    """Train, then watch, and write results/endurance.json.

    Args:
        trainings: of visitors who come one after the other.
        games: each of another seed, of the agents in turn.
        steps: of each training.
        agents: names of the zoo's agents.
        chunks: seconds that are watched of a game at most.
    """
    with tempfile.TemporaryDirectory() as directory, serve(Path(directory)) as app:
        states = [state(app, "nothing")]
        states += in_tenths(app, "trainings", trainings, lambda number: train(app, steps, number))
        states += in_tenths(
            app, "games", games, lambda number: watch(app, agents[number % len(agents)], number, chunks)
        )
    save("endurance", {"machine": machine(*PACKAGES), "states": [state._asdict() for state in states]})


if __name__ == "__main__":
    tyro.cli(main)
