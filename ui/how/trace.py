"""When the workers of a real training pulled, played, learnt and pushed: the shared parameters behind a clock."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv, VectorWrapper
from torch import Tensor
from torch import multiprocessing as mp
from torch.multiprocessing.queue import Queue

from a3c_core.envs import Spaces, make_envs, spaces_of, training_seed
from a3c_core.handover import share_model
from a3c_core.model import ActorCritic, build_model
from a3c_core.normalization import Moments
from a3c_core.recipe import Recipe
from a3c_core.shared import Parameters
from a3c_core.worker import Report, work


class Update(NamedTuple):
    """One turn of a worker's loop. Times are milliseconds since the first update of the trace."""

    rank: int
    pull: float
    """It begins to copy the shared weights,"""
    play: float
    """has copied them and plays with them,"""
    learn: float
    """has taken the last step of its rollout and computes the gradient,"""
    push: float
    """begins to hand the gradient over,"""
    done: float
    """and has done so."""
    seen: int
    """Updates that the weights it pulled had seen."""
    before: int
    """Updates that the shared weights had seen when its own came."""

    @property
    def staleness(self) -> int:
        """Updates of other workers between the pull and the push."""
        return self.before - self.seen


class Clocked:
    """The shared side of one worker, which notes when its verbs are used. `work` knows no difference."""

    def __init__(self, shared: Parameters) -> None:
        self._shared = shared
        self.updates: list[Update] = []
        self.stepped = 0.0

    @property
    def first_step(self) -> int:
        return self._shared.first_step

    def should_continue(self) -> bool:
        return self._shared.should_continue()

    def pull(self, weights: list[Tensor]) -> int:
        self._pull = now()
        self._seen = self._shared.pull(weights)
        self._play = now()
        return self._seen

    def push(self, gradient: Tensor, *, rank: int, steps: int) -> int:
        push = now()
        before = self._shared.push(gradient, rank=rank, steps=steps)
        self.updates.append(Update(rank, self._pull, self._play, self.stepped, push, now(), self._seen, before))
        return before

    def normalize(self, model: ActorCritic, moments: Sequence[Moments] = ()) -> None:
        self._shared.normalize(model, moments)

    def make(self, recipe: Recipe, count: int) -> VectorEnv:
        """The worker's environments, whose steps are noted too."""
        return _ClockedEnvs(make_envs(recipe, count), self)


class _ClockedEnvs(VectorWrapper):
    def __init__(self, envs: VectorEnv, clocked: Clocked) -> None:
        super().__init__(envs)
        self._clocked = clocked

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        answer = self.env.step(actions)
        self._clocked.stepped = now()
        return answer


def now() -> float:
    """Milliseconds on a clock that all processes share."""
    return time.monotonic_ns() / 1e6


def traced(recipe: Recipe) -> list[Update]:
    """Trains `recipe` and returns all updates in the order in which they were made."""
    context = mp.get_context("spawn")
    spaces = spaces_of(recipe)
    shared = share_model(recipe, build_model(recipe, spaces), context)
    queue = context.Queue()
    started = context.Barrier(recipe.workers)
    arguments = (recipe, spaces, shared, queue, started)
    workers = [context.Process(target=_worker, args=(rank, *arguments)) for rank in range(recipe.workers)]
    shared.begin()
    for worker in workers:
        worker.start()
    updates = [update for _ in workers for update in queue.get()]
    for worker in workers:
        worker.join()
    shared.finish()
    return sorted(updates, key=lambda update: update.before)


def _worker(rank: int, recipe: Recipe, spaces: Spaces, shared: Parameters, queue: Queue, started: Any) -> None:  # noqa: ANN401
    torch.set_num_threads(1)
    torch.manual_seed(training_seed(recipe, rank, 0))
    clocked = Clocked(shared)
    started.wait()

    def ignore(report: Report) -> None:
        """The trace wants no more than the times."""

    work(rank, recipe, spaces, clocked, ignore, clocked.make)
    queue.put(clocked.updates)
