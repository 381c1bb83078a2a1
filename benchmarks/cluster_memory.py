"""Whether the server of a cluster grows: what it takes each minute of an hour with eight workers. Linux alone.

    pip install "a3c-arcade[atari,ray]"
    python -m benchmarks.cluster_memory    # an hour; other work beside it does no harm

The workers train CartPole on two simulated nodes and wait after each message, so that they take little of the
processor. What the server shares with other processes, as Ray's store of objects, is told apart.
"""

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import tyro

from benchmarks.cluster import recipe_of, simulated
from benchmarks.results import machine, save
from tests.processes import actors


class Sample(NamedTuple):
    """What the server takes at a moment."""

    minutes: float
    messages: int
    """Since the start."""
    own_mb: float
    shared_mb: float


def memory_of(pid: int) -> tuple[float, float]:
    """Megabytes of a process that are its own, and those of files and memory that others may have too."""
    told = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes = {key: int(value.split()[0]) for key, _, value in (line.partition(":") for line in told) if "Rss" in key}
    return sizes["RssAnon"] / 1024, (sizes["RssFile"] + sizes["RssShmem"]) / 1024


def main(minutes: float = 60.0, workers: int = 8, delay: float = 0.3, keep: bool = True) -> None:
    """Train, and write results/cluster_memory.json and docs/scaling.md.

    Args:
        minutes: how long.
        workers: on two nodes.
        delay: seconds that each waits for each message.
        keep: write the result; --no-keep only prints it.
    """
    from training.engine import Cluster
    from training.run import train

    recipe = dataclasses.replace(recipe_of("cartpole"), workers=workers, steps=10**10)
    samples: list[Sample] = []
    begun, messages = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as directory, simulated(workers, 2) as nodes:
        run = train(recipe, Path(directory) / "run", cluster=Cluster(address=nodes.address, delay=delay))
        for progress in run:
            messages += progress.messages or 0
            passed = (time.monotonic() - begun) / 60
            if progress.updates and passed >= len(samples):
                (server,) = actors("Server")
                samples.append(Sample(round(passed, 2), messages, *memory_of(server)))
                print(*samples[-1], flush=True)
            if samples and passed >= minutes:
                break
        run.close()
    if keep:
        told = machine("torch", "gymnasium", "ray")
        result = {"machine": told, "workers": workers, "delay": delay, "samples": [each._asdict() for each in samples]}
        save("cluster_memory", result)


if __name__ == "__main__":
    tyro.cli(main)
