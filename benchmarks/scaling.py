"""The plan to a thousand machines: a model of workers that share one server, and the costs that it starts from.

    pip install "a3c-arcade[atari,ray]"
    python -m benchmarks.scaling measure    # ten minutes; nothing else should run. Writes docs/scaling.md
    python -m benchmarks.scaling predict --workers 512 --machines 64 --latency 0.001 --megabits 1000

A worker steps and computes, then sends its gradient and gets the newest weights back, in one round trip. In the model
it passes stations one after the other, each of which serves whoever came first:

    a core of its machine -> the machine's link -> the server's link -> the server -> its link -> the machine's link

Times are constants: they are measured, and nothing is fitted. What is left out: garbage collection, links that others
use too, and the core that the server itself takes.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush, heapreplace
from typing import Literal, NamedTuple, get_args

import tyro

from training.engine import Compression

ROUNDS, WARM_UP = 20, 5
"""Rollouts of each worker that are counted, and those before, in which queues fill."""
Task = Literal["cartpole", "pong"]
TASKS = get_args(Task)
"""Recipes whose costs are measured: a small network and one for frames, and quick and slow environments."""
COMPRESSIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Costs:
    """What a worker and the server spend on one update."""

    rollout: float
    """Seconds that a worker steps and computes."""
    steps: int
    """Of its environments together, in that time."""
    service: float
    """Seconds of the server for a gradient and its answer."""
    size: float
    """Bytes of the gradient, and of the weights in the answer."""


@dataclass(frozen=True)
class Network:
    """What is between the machines; each has a link of its own, which sends and receives at once."""

    latency: float
    """Seconds one way."""
    bandwidth: float
    """Bytes per second of each link."""


class Prediction(NamedTuple):
    """How a training goes once its queues have filled."""

    steps_per_second: float
    staleness: float
    """Mean number of other updates between a worker's pull and its push."""
    server: float
    """Share of its time that the server is busy."""
    link: float
    """Share of its time that the server's link is busy in either direction, with workers on other machines."""


class Station:
    """Serves whoever came first, so many at a time."""

    def __init__(self, slots: int = 1) -> None:
        self._free = [0.0] * slots

    def take(self, now: float, seconds: float) -> float:
        """When a service that is asked for now will have ended. To be called in the order of `now`."""
        ends = max(now, self._free[0]) + seconds
        heapreplace(self._free, ends)
        return ends


class Stop(NamedTuple):
    """A part of a worker's way."""

    station: Station
    seconds: float
    after: float = 0.0
    """Seconds until the next part begins, in which the station is free."""


def simulate(
    costs: Costs, network: Network, *, workers: int, machines: int = 1, cores: int | None = None
) -> Prediction:
    """Plays the events of a training with workers spread over machines; the server is on the first of them.

    Each worker has a core of its own unless a machine has fewer `cores`.
    """
    server, out, into = Station(), Station(), Station()
    crossing = costs.size / network.bandwidth
    ways = []
    for machine in range(machines):
        here = workers // machines + (machine < workers % machines)
        core, up, down = Station(min(cores or here, here) or 1), Station(), Station()
        there = [Stop(up, crossing, network.latency), Stop(into, crossing)] if machine else []
        back = [Stop(out, crossing, network.latency), Stop(down, crossing)] if machine else []
        way = [Stop(core, costs.rollout), *there, Stop(server, costs.service), *back]
        ways += here * [(way, 1 + len(there))]
    events = [(costs.rollout * number / workers, number, 0) for number in range(workers)]  # so that none meet at first
    seen, updates, crossed, stale, begin = [0] * workers, 0, 0, 0, 0.0
    first, last = workers * WARM_UP, workers * (WARM_UP + ROUNDS)
    while updates < last:
        now, worker, place = heappop(events)
        way, serving = ways[worker]
        if place == serving + 1:  # it has just been served
            if updates >= first:
                stale += updates - seen[worker]
                crossed += serving > 1
            updates += 1
            seen[worker] = updates
            begin = now if updates == first else begin
        stop = way[place % len(way)]
        heappush(events, (stop.station.take(now, stop.seconds) + stop.after, worker, place % len(way) + 1))
    counted, seconds = last - first, now - begin
    rate = counted / seconds
    return Prediction(rate * costs.steps, stale / counted, rate * costs.service, crossed * crossing / seconds)


def limits(costs: Costs, network: Network) -> dict[str, float]:
    """The most steps per second of any number of workers on other machines: of the server, and of its link."""
    return {"server": costs.steps / costs.service, "link": costs.steps * network.bandwidth / costs.size}


def remedies(costs: Costs, half: Costs, *, workers_of_machine: int, shards: int = 8) -> dict[str, tuple[Costs, int]]:
    """What can be changed where it stops scaling: the costs then, and how many workers share one message.

    `half` are the costs with 16-bit numbers.
    """
    speaker = replace(costs, steps=workers_of_machine * costs.steps)
    shard = replace(costs, service=costs.service / shards, size=costs.size / shards)
    return {
        "as it is": (costs, 1),
        "16-bit numbers": (half, 1),
        "rollouts four times as long": (replace(costs, rollout=4 * costs.rollout, steps=4 * costs.steps), 1),
        f"{shards} shards of the server": (shard, 1),
        "one speaker per machine": (speaker, workers_of_machine),
        "one speaker, 16-bit numbers": (replace(half, steps=speaker.steps), workers_of_machine),
    }


# The costs


@contextmanager
def one_node() -> Iterator[None]:
    """Ray on this machine."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


def message(name: str, compression: str, *, messages: int) -> dict[str, str | float]:
    """What the messages of a recipe cost: their bytes, and seconds of each in this process, over Ray with many under
    way, which is what the server can serve, and over Ray alone, there and back."""
    import ray
    import torch

    from a3c_core.envs import spaces_of
    from a3c_core.model import build_model
    from a3c_core.shared import ParameterServer
    from training.cluster import Server, pack
    from training.engine import Cluster
    from training.recipes import RECIPES

    recipe = RECIPES[name]
    model = build_model(recipe, spaces_of(recipe))
    state = ParameterServer(recipe, model)
    words = (recipe, state, Cluster(address="local", compression=compression), 0, recipe.steps)
    gradient = pack(torch.full_like(state.theta.detach(), 1e-6), compression)
    here, there = Server(*words), ray.remote(num_cpus=0)(Server).remote(*words)

    def seconds(calls: Callable[[], object]) -> float:
        calls()  # the first is not like the others
        started = time.perf_counter()
        calls()
        return (time.perf_counter() - started) / messages

    push, ask = partial(here.push, gradient, 0, 1, 0, []), partial(there.push.remote, gradient, 0, 1, 0, [])
    result = {
        "recipe": name,
        "compression": compression,
        "bytes": gradient.nbytes,
        "here": seconds(lambda: [push() for _ in range(messages)]),
        "served": seconds(lambda: ray.get([ask() for _ in range(messages)])),
        "alone": seconds(lambda: [ray.get(ask()) for _ in range(messages)]),
    }
    ray.kill(there)
    return result


def measure(
    messages: int = 200,
    rollout_seconds: float = 60.0,
    run_seconds: float = 60.0,
    workers: tuple[int, ...] = (1, 2, 4, 8),
) -> None:
    """Measure the costs, and real trainings on a simulated cluster of two nodes; write docs/scaling.md.

    Args:
        messages: of each size, to the server.
        rollout_seconds: how long one worker trains, for the time of a rollout.
        run_seconds: how long each real training lasts.
        workers: of the real trainings of Pong, shared by the two nodes.
    """
    from benchmarks.cluster import alone
    from benchmarks.results import machine, save
    from training.recipes import RECIPES

    with one_node():
        costs = [message(name, each, messages=messages) for name in TASKS for each in COMPRESSIONS]
    rollouts = []
    for name in TASKS:
        trial, recipe = alone(name, "local", 1, 0, "float32", 0, rollout_seconds), RECIPES[name]
        steps = recipe.envs_per_worker * recipe.n_steps[0]
        rollouts.append({"recipe": name, "steps": steps, "seconds": trial.seconds * steps / trial.steps})
    runs = [alone("pong", "cluster", each, 0, "float32", 0, run_seconds, 2)._asdict() for each in workers]
    told = machine("torch", "gymnasium", "ale-py", "ray")
    save("scaling", {"machine": told, "messages": costs, "rollouts": rollouts, "runs": runs})


def costs_of(result: dict, recipe: str, compression: str) -> Costs:
    """What was measured of a recipe."""
    told = next(each for each in result["messages"] if (each["recipe"], each["compression"]) == (recipe, compression))
    rollout = next(each for each in result["rollouts"] if each["recipe"] == recipe)
    return Costs(rollout=rollout["seconds"], steps=rollout["steps"], service=told["served"], size=told["bytes"])


def predict(
    workers: int,
    machines: int,
    recipe: Task = "pong",
    compression: Compression = "float32",
    latency: float = 0.0005,
    megabits: float = 1000.0,
) -> None:
    """Predict a training from the costs that were measured.

    Args:
        workers: of all machines together.
        machines: the server is on the first.
        recipe: whose costs.
        compression: the type in which gradients and weights travel.
        latency: seconds one way.
        megabits: per second, of each machine's link.
    """
    from benchmarks.results import file_of

    path = file_of("scaling")
    if not path.exists():
        raise SystemExit("error: nothing is measured yet: run python -m benchmarks.scaling measure on a quiet machine")
    costs, network = costs_of(json.loads(path.read_text()), recipe, compression), Network(latency, megabits * 1e6 / 8)
    found = simulate(costs, network, workers=workers, machines=machines)
    print(f"{found.steps_per_second:,.0f} steps/s, staleness {found.staleness:.1f}", end=", ")
    print(f"the server busy {found.server:.0%}, its link {found.link:.0%} of the time")
    for what, most in limits(costs, network).items():
        print(f"the {what} lets {most:,.0f} steps/s through")


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"measure": measure, "predict": predict}, description=__doc__)
