"""What a cluster costs against the processes of one machine: time to solve CartPole, speed on Pong, and slow links.

    pip install "a3c-arcade[atari,ray]"
    python -m benchmarks.cluster    # over an hour, most of it for the delays; nothing else should run

The cluster is simulated: nodes of one core each, on this machine. Local engine and cluster take turns, each training
in a fresh process. The clock starts when the first update has been reported, so Ray's start is not counted; it is told
beside. A delay is added to each round trip of a worker, half of it on the way there.
"""

import dataclasses
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import tyro

from benchmarks.results import machine

GOALS = {"cartpole": 475.0, "pong": 18.0}


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
    from training.recipes import RECIPES
    from training.run import train

    started = time.perf_counter()
    cluster = None
    if engine == "cluster":
        import ray
        from ray.cluster_utils import Cluster as SimulatedCluster

        machines = min(machines or workers, workers)
        cores = [workers // machines + (number < workers % machines) for number in range(machines)]
        nodes = SimulatedCluster(initialize_head=True, head_node_args={"num_cpus": cores[0]})
        for count in cores[1:]:
            nodes.add_node(num_cpus=count)
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        cluster = Cluster(address=nodes.address, compression=compression, delay=delay)
    first, log = None, []
    try:
        with tempfile.TemporaryDirectory() as directory:
            recipe = dataclasses.replace(RECIPES[task], seed=seed, workers=workers)
            run = train(recipe, Path(directory) / "run", cluster=cluster)
            for progress in run:
                now = time.perf_counter()
                if progress.updates and first is None:
                    first = (now, progress.steps)
                elif progress.updates:
                    log.append(progress)
                solved = progress.episodes >= 100 and progress.mean_return >= GOALS[task]
                if solved or (first and now - first[0] >= limit):
                    break
            run.close()
    finally:
        if cluster:
            ray.shutdown()
            nodes.shutdown()
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
    )


def alone(*arguments: str | float) -> Trial:
    """A trial in a fresh process, told as it ends."""
    command = [sys.executable, "-m", "benchmarks.cluster", "trial", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result = Trial(*json.loads(done.stdout.splitlines()[-1]))
    print(json.dumps(result._asdict()), flush=True)
    return result


def rate(trials: list[Trial], engine: str) -> float:
    """Median steps per second of an engine's trials."""
    return statistics.median(each.steps / each.seconds for each in trials if each.engine == engine)


def main(
    seeds: int = 5,
    workers: int = 2,
    cartpole_seconds: float = 60.0,
    pong_seconds: float = 120.0,
    pong_trials: int = 3,
    delays: tuple[float, ...] = (0.0, 0.05, 0.2),
    delay_seconds: float = 600.0,
    out: Path | None = None,
) -> None:
    """Run all trials, one at a time, and print a line of JSON for each and the ratios.

    Args:
        seeds: CartPole's trainings of each engine, of seeds 0, 1 and so on.
        workers: of each training; the cluster has a node for each.
        cartpole_seconds: after which a training of CartPole is given up.
        pong_seconds: how long each engine trains Pong for its speed.
        pong_trials: Pong's trainings of each engine.
        delays: seconds added to each round trip on Pong.
        delay_seconds: how long Pong is trained with each delay.
        out: a file for all trials and this machine, as JSON.
    """
    engines = ("local", "cluster")
    solve = [
        alone("cartpole", engine, workers, 0, "float32", seed, cartpole_seconds)
        for seed in range(seeds)
        for engine in engines
    ]
    for engine in engines:
        ours = [each for each in solve if each.engine == engine]
        median = statistics.median(each.seconds if each.solved else float("inf") for each in ours)
        print(f"cartpole, {engine}: {sum(each.solved for each in ours)} of {seeds} solved, median {median:.1f} s")
    speed = [
        alone("pong", engine, workers, 0, compression, number, pong_seconds)
        for number in range(pong_trials)
        for engine, compression in (("local", "float32"), ("cluster", "float32"))
    ]
    if speed:
        print(f"pong: the cluster makes {rate(speed, 'cluster') / rate(speed, 'local'):.0%} of the local steps/s")
    slow = [
        alone("pong", "cluster", workers, delay, compression, 0, delay_seconds)
        for delay in delays
        for compression in ("float32", "bfloat16")
    ]
    for each in slow:
        score = "none yet" if each.mean_return is None else f"{each.mean_return:.1f}"
        print(
            f"pong, {1000 * each.delay:.0f} ms, {each.compression}: {each.steps / each.seconds:.0f} steps/s, staleness "
            f"{each.staleness:.2f}, mean return {score} after {each.steps:,} steps"
        )
    trials = [*solve, *speed, *slow]
    if out:
        told = machine("torch", "gymnasium", "ale-py", "ray")
        out.write_text(json.dumps({"machine": told, "trials": [each._asdict() for each in trials]}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["trial"]:
        task, engine, workers, delay, compression, seed, limit, *machines = sys.argv[2:]
        numbers = (int(workers), float(delay), compression, int(seed), float(limit), *map(int, machines))
        print(json.dumps(trial(task, engine, *numbers)))
    else:
        tyro.cli(main)
