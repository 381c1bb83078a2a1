"""What the workers share, and how the processes of one machine share it.

ParameterServer holds the state: weights, optimizer, statistics. SharedParameters puts it into shared memory and hands
it to worker processes. A worker uses the verbs of `Parameters` alone, so another engine (a server in another process or
on another machine) can stand behind them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from multiprocessing.context import BaseContext
from multiprocessing.synchronize import Lock, Semaphore
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from a3c_core.devices import device_of, wait_for_kernels
from a3c_core.model import ActorCritic
from a3c_core.normalization import Moments
from a3c_core.optim import build_optimizers
from a3c_core.recipe import Recipe

AVERAGE_EVERY = 8
"""Updates from one step of the weights' average to the next: each step reads all weights."""

POLL_SECONDS = 0.1
"""Whoever waits for a worker looks this often whether the run is over: the worker may have been killed."""


class Parameters(Protocol):
    """The shared parameters as a worker sees them."""

    first_step: int
    """Steps that the run had behind it when its workers were started."""

    def should_continue(self) -> bool:
        """Whether there are steps left and nobody asked to stop."""

    def pull(self, weights: list[Tensor]) -> int:
        """Copies the newest weights into a worker's own; returns how many updates they have seen."""

    def push(self, gradient: Tensor, *, rank: int, steps: int) -> int:
        """Makes an update with a worker's gradient; returns the updates that were made before this one."""

    def normalize(self, model: ActorCritic, moments: Sequence[Moments] = ()) -> None:
        """Adds the moments of a rollout to the running statistics, and copies these into a worker's model."""


class ParameterServer:
    """The state that all workers change: weights theta, optimizer, running statistics, the weights' average."""

    def __init__(self, recipe: Recipe, model: ActorCritic) -> None:
        """Starts from copies of the model's weights and statistics. Raises ValueError for a missing GPU."""
        self.recipe = recipe
        weights = parameters_to_vector(model.parameters()).detach().to(device_of(recipe.shared_device))
        self.theta = nn.Parameter(weights.share_memory_())
        self.optimizers = build_optimizers(self.theta, recipe)
        self.normalizer = deepcopy(model.normalizer).double().share_memory()
        self.average = None if recipe.average_decay is None else weights.clone().share_memory_()

    @torch.no_grad()
    def start_from(self, model: ActorCritic) -> None:
        """Takes over the weights and statistics of `model`; the optimizer stays as it is."""
        self.theta.copy_(parameters_to_vector(model.parameters()))
        if self.average is not None:
            self.average.copy_(self.theta)
        self.normalizer.copy(model.normalizer)

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that the workers change, by name; they are the shared ones themselves."""
        named: dict[str, Tensor] = {"theta": self.theta}
        for number, optimizer in enumerate(self.optimizers):
            named |= {f"optimizer.{number}.{name}": part for name, part in optimizer.state[self.theta].items()}
        for number, statistics in enumerate(self.normalizer.running()):
            named |= {f"statistics.{number}.{name}": part for name, part in statistics.named_buffers()}
        return named if self.average is None else named | {"average": self.average}

    def step(self, gradient: Tensor, *, rank: int, learning_rate: float) -> None:
        """One step of the optimizer of worker `rank`."""
        optimizer = self.optimizers[rank % len(self.optimizers)]
        optimizer.param_groups[0]["lr"] = learning_rate
        self.theta.grad = gradient.to(self.theta.device)
        optimizer.step()

    def normalize(self, model: ActorCritic, moments: Sequence[Moments] = ()) -> None:
        """Adds the moments of a rollout to the running statistics, and copies these into a worker's model."""
        self.normalizer.add(moments)
        model.normalizer.copy(self.normalizer)

    def follow(self, updates: int) -> None:
        """Moves the weights' average, if there is one: each AVERAGE_EVERY updates, as these would have moved it."""
        if self.average is not None and updates % AVERAGE_EVERY == 0:
            self.average.lerp_(self.theta.detach(), 1.0 - self.recipe.average_decay**AVERAGE_EVERY)


class SharedParameters:
    """A ParameterServer in the shared memory of one machine's processes: lock-free (Hogwild), or one at a time.

    `a3c_core.handover` has other ways to hand gradients over.
    """

    def __init__(self, recipe: Recipe, model: ActorCritic, context: BaseContext) -> None:
        self.recipe = recipe
        self.server = ParameterServer(recipe, model)
        self.first_step = 0
        self.goal = recipe.steps
        """Steps at which the workers end; to be set before they are started."""
        self._steps = context.Value("q", 0)
        self._updates = context.Value("q", 0)
        self._stop = context.RawValue("b", False)
        self._lock = None if recipe.handover == "lock-free" else context.Lock()
        self._statistics = context.Lock()
        self._pushing = [context.Lock() for _ in range(recipe.workers)]
        """Each held by its worker alone while it writes, so that waiting for all of them is waiting for a pause."""

    @property
    def steps(self) -> int:
        """Steps of all workers together, in the whole run. Read without the lock, which a killed worker may hold."""
        return self._steps.get_obj().value

    def start_at(self, steps: int) -> None:
        """Makes this the continuation of a run that has `steps` steps behind it."""
        self._steps.value = self.first_step = steps

    def stop(self) -> None:
        """Asks all workers to end after the rollout that they are in."""
        self._stop.value = True

    @property
    def stopped(self) -> bool:
        """Whether somebody asked to stop."""
        return self._stop.value

    def should_continue(self) -> bool:
        """Whether there are steps left and nobody asked to stop."""
        return self.steps < self.goal and not self.stopped

    def begin(self) -> None:
        """To be called before the workers start: begins what makes updates besides them, here nothing."""

    def finish(self) -> None:
        """To be called once the workers have ended: all that they handed over is in the weights when it returns."""

    def pull(self, weights: list[Tensor]) -> int:
        """Copies the newest weights into a worker's own (see `flatten`); returns the updates that they have seen.

        Without the lock, updates that other workers make meanwhile may be partly in the copy and are not counted.
        """
        with self._turn():
            seen = self._updates.value
            newest = self.server.theta.detach().split([len(part) for part in weights])
            for part, new in zip(weights, newest, strict=True):
                part.copy_(new)
            wait_for_kernels(self.server.theta.device)
        return seen

    def push(self, gradient: Tensor, *, rank: int, steps: int) -> int:
        """Steps the shared optimizer with a worker's gradient; returns the updates that were made before this one."""
        rate = self.recipe.learning_rate_at(self.steps)
        with self._pushing[rank % len(self._pushing)], self._turn():
            self.server.step(gradient, rank=rank, learning_rate=rate)
            with self._steps.get_lock():
                self._steps.value += steps
            with self._updates.get_lock():
                before = self._updates.value
                self._updates.value += 1
            self.server.follow(before)
            wait_for_kernels(self.server.theta.device)
        return before

    def normalize(self, model: ActorCritic, moments: Sequence[Moments] = ()) -> None:
        """Adds the moments of a rollout to the running statistics, and copies these into a worker's model."""
        with self._statistics:
            self.server.normalize(model, moments)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Lets one worker in at a time, if the recipe asks for a lock.

        Once the run is over nobody waits for it any longer: a worker that was killed never releases it.
        """
        held = self._lock is not None and acquire(self._lock, unless=lambda: self.stopped)
        try:
            yield
        finally:
            if held:
                self._lock.release()

    @contextmanager
    def paused(self, seconds: float = 2.0) -> Iterator[None]:
        """While it is open no worker writes, so what is read is of one moment.

        Gives up waiting after `seconds`: a worker that was killed while it wrote never lets go.
        """
        until = time.monotonic() + seconds
        held = [lock for lock in self._pushing if lock.acquire(timeout=max(0.0, until - time.monotonic()))]
        try:
            yield
        finally:
            for lock in held:
                lock.release()


def acquire(lock: Lock | Semaphore, unless: Callable[[], bool]) -> bool:
    """Acquires it and returns True; or returns False where that takes POLL_SECONDS or more and `unless` holds."""
    while not lock.acquire(timeout=POLL_SECONDS):
        if unless():
            return False
    return True
