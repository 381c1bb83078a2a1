"""What a cluster costs against the processes of one machine: CartPole, Pong, and slow links. Writes docs/scaling.md.

    pip install "a3c-arcade[atari,ray]"
    python -m benchmarks.cluster                      # an hour; nothing else should run
    python -m benchmarks.cluster --parts cartpole     # one part again: the others stay as they are

The cluster is simulated: nodes of one core each, on this machine. Local engine and cluster take turns, each training
in a fresh process. The clock starts when the first update has been reported, so Ray's start is not counted; it is told
beside. A delay is added to each round trip of a worker, half of it on the way there.
"""

import dataclasses
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import tyro

from a3c_core.recipe import Recipe
from benchmarks.results import file_of, machine, save

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster as SimulatedCluster

GOALS = {"cartpole": 475.0, "pong": 18.0, "pong, three passes": 18.0}
PASSES = {"passes": 3, "clip_ratio": 0.2}
"""What makes Pong learn within 0.6M steps: see training/NOTES.md."""
MARK = 50_000
"""Steps from one point of a trial's curve to the next."""
Part = Literal["cartpole", "speed", "pong", "delays"]
PARTS: tuple[Part, ...] = ("cartpole", "speed", "pong", "delays")


class Trial(NamedTuple):
    """One training."""

    task: str
    engine: str
    """local or cluster."""
    workers: int
    delay: float
    """Seconds per round trip."""
    compression: str
    seed: int
    solved: bool
    """Whether the mean return of the last 100 training episodes reached the task's goal."""
    start_seconds: float
    """Until the first update was reported, simulated nodes included."""
    seconds: float
    """From then on."""
    steps: int
    """In these seconds."""
    mean_return: float | None
    staleness: float
    """Mean of the log's lines."""
    messages: int
    megabytes: float
    curve: list[tuple[int, float]]
    """Steps and the mean return of the last 100 training episodes, every MARK steps."""


def recipe_of(task: str) -> Recipe:
    """The shipped recipe, or that of Pong with several passes."""
    from training.recipes import RECIPES

    return dataclasses.replace(RECIPES[task.split(",")[0]], **(PASSES if "passes" in task else {}))


@contextmanager
def simulated(cores: int, machines: int) -> "Iterator[SimulatedCluster]":
    """A cluster of nodes on this machine, which share so many cores; this process is connected."""
    import ray
    from ray._private.ray_constants import RAY_WORKER_NICENESS
    from ray.cluster_utils import Cluster as SimulatedCluster

    os.environ[RAY_WORKER_NICENESS] = "0"  # Ray's is 15, with which other work takes all of the processor
    first, *others = [cores // machines + (number < cores % machines) for number in range(machines)]
    nodes = SimulatedCluster(initialize_head=True, head_node_args={"num_cpus": first})
    try:
        for count in others:
            nodes.add_node(num_cpus=count)
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def trial(
    task: str,
    engine: str,
    workers: int,
    delay: float,
    compression: str,
    seed: int,
    limit: float,
    machines: int | None = None,
) -> Trial:
    """Trains until the goal is reached or `limit` seconds after the first update; each worker has a node of its own,
    or shares so many with the others."""
    import torch._dynamo  # noqa: F401  a first import, which the optimizer would do on the clock

    from training.engine import Cluster
    from training.run import train

    started = time.perf_counter()
    machines = min(machines or workers, workers)
    first, log, curve = None, [], []
    with (
        tempfile.TemporaryDirectory() as directory,
        simulated(workers, machines) if engine == "cluster" else nullcontext() as nodes,
    ):
        cluster = Cluster(address=nodes.address, compression=compression, delay=delay) if nodes else None
        recipe = dataclasses.replace(recipe_of(task), seed=seed, workers=workers)
        run = train(recipe, Path(directory) / "run", cluster=cluster)
        for progress in run:
            now = time.perf_counter()
            if progress.updates and first is None:
                first = (now, progress.steps)
            elif progress.updates:
                log.append(progress)
            if progress.mean_return is not None and progress.steps >= MARK * (len(curve) + 1):
                curve.append((progress.steps, round(progress.mean_return, 1)))
            solved = progress.episodes >= 100 and progress.mean_return >= GOALS[task]
            if solved or (first and now - first[0] >= limit):
                break
        run.close()
    return Trial(
        task,
        engine,
        workers,
        delay,
        compression,
        seed,
        solved,
        first[0] - started,
        now - first[0],
        progress.steps - first[1],
        progress.mean_return,
        statistics.mean([line.staleness for line in log] or [0.0]),
        sum(line.messages or 0 for line in log),
        sum(line.megabytes or 0.0 for line in log),
        curve,
    )


def alone(*arguments: str | float) -> Trial:
    """A trial in a fresh process, told as it ends."""
    command = [sys.executable, "-m", "benchmarks.cluster", "trial", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result = Trial(*json.loads(done.stdout.splitlines()[-1]))
    print(json.dumps(result._asdict()), flush=True)
    return result


def trials_of(
    part: Part, *, seeds: int, workers: int, many: int, delays: tuple[float, ...], seconds: dict[Part, float]
) -> Iterator[Trial]:
    """All trials of a part, one at a time."""
    most = seconds[part]
    if part == "cartpole":
        for seed in range(seeds):
            for engine, compression in (("local", "float32"), ("cluster", "float32"), ("cluster", "bfloat16")):
                yield alone("cartpole", engine, workers, 0, compression, seed, most)
    elif part == "speed":
        for number in range(3):
            for engine in ("local", "cluster"):
                yield alone("pong", engine, workers, 0, "float32", number, most)
    elif part == "pong":
        for compression in ("float32", "bfloat16"):
            for seed in range(2):
                yield alone("pong, three passes", "cluster", workers, 0, compression, seed, most)
    else:
        for delay in delays:
            yield alone("pong, three passes", "cluster", workers, delay, "float32", 0, most)
        yield alone("pong, three passes", "cluster", workers, delays[-1], "bfloat16", 0, most)
        for delay in (delays[0], delays[-1]):
            yield alone("pong, three passes", "cluster", many, delay, "float32", 0, most, workers)


def main(
    parts: tuple[Part, ...] = PARTS,
    seeds: int = 5,
    workers: int = 2,
    many: int = 8,
    delays: tuple[float, ...] = (0.0, 0.05, 0.2),
    cartpole_seconds: float = 60.0,
    speed_seconds: float = 60.0,
    pong_seconds: float = 900.0,
    delay_seconds: float = 240.0,
    keep: bool = True,
) -> None:
    """Run all trials, one at a time, and write results/cluster.json and docs/scaling.md.

    Args:
        parts: what is measured; the results of other parts are kept as they are.
        seeds: CartPole's trainings of each engine, of seeds 0, 1 and so on.
        workers: of each training; the cluster has a node for each.
        many: workers on as many nodes, to see whether more of them hide a delay.
        delays: seconds added to each round trip on Pong.
        cartpole_seconds: after which a training of CartPole is given up.
        speed_seconds: how long each engine trains Pong for its speed.
        pong_seconds: after which a training of Pong is given up.
        delay_seconds: how long Pong is trained with each delay.
        keep: write the results; --no-keep only prints them.
    """
    seconds: dict[Part, float] = dict(
        zip(PARTS, (cartpole_seconds, speed_seconds, pong_seconds, delay_seconds), strict=True)
    )
    path = file_of("cluster")
    result = json.loads(path.read_text()) if path.exists() else {}
    for part in parts:
        trials = trials_of(part, seeds=seeds, workers=workers, many=many, delays=delays, seconds=seconds)
        told = machine("torch", "gymnasium", "ale-py", "ray")
        result[part] = {"machine": told, "trials": [trial._asdict() for trial in trials]}
        if keep:
            save("cluster", result)


if __name__ == "__main__":
    if sys.argv[1:2] == ["trial"]:
        task, engine, workers, delay, compression, seed, limit, *machines = sys.argv[2:]
        numbers = (int(workers), float(delay), compression, int(seed), float(limit), *map(int, machines))
        print(json.dumps(trial(task, engine, *numbers)))
    else:
        tyro.cli(main)
