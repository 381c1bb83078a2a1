"""Whether the app's memory grows: trainings and games through a live server, and what it takes after each tenth.

    python -m benchmarks.endurance                                # 50 trainings, 200 games
    python -m benchmarks.endurance --trainings 2 --games 10

A training is short, shows its two games, and is that of a new visitor; games are those of the agents named, watched to
their end or for so many chunks. Told are the resident memory of the server's own process, its threads, its open files,
and the megabytes that its temporary files take. Linux alone, since it reads /proc.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import tyro
from gradio_client import Client

from training.recipes import RECIPES
from ui.settings import SETTINGS

PATIENCE = 300.0
"""Seconds that a single answer may take."""


class Server(NamedTuple):
    """A running app."""

    url: str
    pid: int
    files: Path
    """Where its temporary files are."""


@contextmanager
def served() -> Iterator[Server]:
    """The app of this checkout on a free port, with a directory for temporary files of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        environment = os.environ | {"GRADIO_SERVER_PORT": str(port), "TMPDIR": directory}
        process = subprocess.Popen([sys.executable, "app.py"], env=environment, stdout=subprocess.DEVNULL)
        try:
            server = Server(f"http://127.0.0.1:{port}/", process.pid, Path(directory))
            wait_for(server)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def wait_for(server: Server) -> None:
    """Waits until the app answers."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(httpx.TransportError):
            if httpx.get(f"{server.url}healthz").status_code == 200:
                return
        time.sleep(0.2)
    raise TimeoutError("The app does not answer.")


def train(server: Server, steps: int, number: int) -> None:
    """One visitor's short training, with the games before and after it."""
    recipe = RECIPES["cartpole"]
    changes = {"steps": steps, "seed": number}
    values = [changes.get(setting.field, setting.of(recipe)) for setting in SETTINGS]
    with tempfile.TemporaryDirectory() as directory:
        visitor = Client(server.url, verbose=False, download_files=directory, analytics_enabled=False)
        visitor.submit("cartpole", *values, api_name="/train").result(PATIENCE)
        visitor.submit(api_name="/compare").result(PATIENCE)
        visitor.close()


def watch(server: Server, agent: str, seed: int, chunks: int) -> None:
    """One game, as the player fetches it: chunk after chunk, to its end or for `chunks` of them."""
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as visitor:
        n = 0
        while n < chunks:
            answer = visitor.get("arcade/chunk", params={"agent": agent, "seed": seed, "n": n})
            answer.raise_for_status()
            if answer.status_code == 204:
                return
            n += answer.status_code == 200


def state(server: Server) -> str:
    """What the server takes at this moment."""
    process = Path(f"/proc/{server.pid}")
    lines = (line.split() for line in (process / "status").read_text().splitlines())
    told = {words[0]: int(words[1]) for words in lines if words[0] in ("VmRSS:", "Threads:")}
    files = sum(1 for _ in (process / "fd").iterdir())
    room = sum(path.stat().st_size for path in server.files.rglob("*") if path.is_file())
    memory = f"memory {told['VmRSS:'] / 1024:.0f} MiB, {told['Threads:']} threads"
    return f"{memory}, {files} open files, {room / 2**20:.1f} MiB of files"


def told_in_tenths(server: Server, what: str, count: int, act: Callable[[int], None]) -> None:
    """Does something `count` times and tells the server's state after each tenth."""
    tenths = {round(count * tenth / 10) for tenth in range(1, 11)}
    for number in range(1, count + 1):
        act(number)
        if number in tenths:
            print(f"after {number} of {count} {what}: {state(server)}", flush=True)


def main(
    trainings: int = 50,
    games: int = 200,
    steps: int = 20_000,
    agents: tuple[str, ...] = ("cartpole", "pendulum", "pong"),
    chunks: int = 120,
) -> None:
    """Trains, then watches, and tells the server's memory after each tenth of either.

    Args:
        trainings: of visitors who come one after the other.
        games: each of another seed, of the agents in turn.
        steps: of each training.
        agents: names of the zoo's agents.
        chunks: half seconds that are watched of a game at most.
    """
    with served() as server:
        print(f"at first: {state(server)}", flush=True)
        told_in_tenths(server, "trainings", trainings, lambda number: train(server, steps, number))
        told_in_tenths(
            server, "games", games, lambda number: watch(server, agents[number % len(agents)], number, chunks)
        )


if __name__ == "__main__":
    tyro.cli(main)
