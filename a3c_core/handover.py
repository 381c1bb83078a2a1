"""The ways in which workers hand their gradients over: `Recipe.handover` names one, `share_model` builds it.

Lock-free and under a lock are SharedParameters itself; here are the other two. Nobody in here waits for a worker
that is gone (`acquire`).
"""

import threading
from multiprocessing.context import BaseContext

import torch
from torch import Tensor

from a3c_core.devices import wait_for_kernels
from a3c_core.model import ActorCritic
from a3c_core.recipe import Recipe
from a3c_core.shared import SharedParameters, acquire


def share_model(recipe: Recipe, model: ActorCritic, context: BaseContext) -> SharedParameters:
    """The shared parameters that the recipe asks for, with the weights and statistics of `model`, which are copied."""
    return HANDOVERS[recipe.handover](recipe, model, context)


class QueuedParameters(SharedParameters):
    """One queue of gradients: a worker goes on once its own is in it, a thread of the parent applies them in turn.

    The queue has a place for each worker; where it is full, workers wait.
    """

    def __init__(self, recipe: Recipe, model: ActorCritic, context: BaseContext) -> None:
        super().__init__(recipe, model, context)
        theta = self.server.theta.detach()
        self._gradients = theta.new_zeros(recipe.workers, len(theta)).share_memory_()
        self._about = torch.zeros(recipe.workers, 2, dtype=torch.int64).share_memory_()
        """For each place of the queue: the worker's rank, and the steps that come with the gradient."""
        self._free = context.Semaphore(recipe.workers)
        self._filled = context.Semaphore(0)
        self._handing = context.Lock()
        self._handed = context.RawValue("q", 0)
        """Gradients handed over; number n is in place n modulo the queue's length."""
        self._handed_steps = context.RawValue("q", 0)
        self._thread: threading.Thread | None = None
        self._closing = False
        self._error: Exception | None = None

    def __getstate__(self) -> dict[str, object]:
        """What a worker's process gets: all but the thread."""
        return self.__dict__ | {"_thread": None}

    def start_at(self, steps: int) -> None:
        """Makes this the continuation of a run that has `steps` steps behind it."""
        super().start_at(steps)
        self._handed_steps.value = steps

    def should_continue(self) -> bool:
        """Whether there are steps left that nobody has handed over, and nobody asked to stop."""
        return self._handed_steps.value < self.goal and not self.stopped

    def push(self, gradient: Tensor, *, rank: int, steps: int) -> int:
        """Puts a worker's gradient into the queue; returns how many are applied before it."""
        if not acquire(self._free, unless=lambda: self.stopped) or not acquire(self._handing, lambda: self.stopped):
            return self._handed.value  # the run has ended without it, and its steps do not count
        place = (before := self._handed.value) % len(self._gradients)
        self._gradients[place].copy_(gradient)
        self._about[place] = torch.tensor([rank, steps])
        wait_for_kernels(self._gradients.device)
        self._handed_steps.value += steps
        self._handed.value += 1
        self._filled.release()
        self._handing.release()
        return before

    def begin(self) -> None:
        """Starts the thread that applies gradients."""
        self._thread = threading.Thread(target=self._apply_all, name="a3c-updates", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Waits until all that was handed over is applied; to be called once the workers have ended.

        Raises what went wrong in the thread.
        """
        if self._thread is not None:
            self.stop()  # or the thread would wait for a lock that a killed worker holds
            self._closing = True
            self._filled.release()
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _apply_all(self) -> None:
        applied = 0
        try:
            while True:
                self._filled.acquire()
                closing = self._closing
                while applied < self._handed.value:
                    place = applied % len(self._gradients)
                    rank, steps = self._about[place].tolist()
                    super().push(self._gradients[place], rank=rank, steps=steps)
                    applied += 1
                    self._free.release()
                if closing:
                    return
        except Exception as error:
            self._error = error
            self.stop()


class SynchronousParameters(SharedParameters):
    """Synchronous A2C of several processes: one update from the mean of all workers' gradients.

    Each worker waits until all have handed theirs over and the update is made, so all pull the same weights. There is
    one optimizer, whatever `share_statistics` says.
    """

    def __init__(self, recipe: Recipe, model: ActorCritic, context: BaseContext) -> None:
        super().__init__(recipe, model, context)
        theta = self.server.theta.detach()
        self._gradients = theta.new_zeros(recipe.workers, len(theta)).share_memory_()
        self._arriving = context.Lock()
        self._arrived = context.RawValue("q", 0)
        self._arrived_steps = context.RawValue("q", 0)
        self._made = [context.Semaphore(0) for _ in range(recipe.workers)]
        """Tells each worker that the update is made."""

    def push(self, gradient: Tensor, *, rank: int, steps: int) -> int:
        """Waits for the gradients of all workers and one update with their mean; returns the updates before it."""
        before = self._updates.value
        self._gradients[rank].copy_(gradient)
        wait_for_kernels(self._gradients.device)
        if not acquire(self._arriving, unless=lambda: self.stopped):
            return before
        self._arrived.value += 1
        self._arrived_steps.value += steps
        complete = self._arrived.value == len(self._made)
        self._arriving.release()
        if not complete:  # and never will be if another worker has ended: then the run is over
            acquire(self._made[rank], unless=lambda: not self.should_continue())
            return before
        steps, self._arrived.value, self._arrived_steps.value = self._arrived_steps.value, 0, 0
        super().push(self._gradients.mean(0), rank=0, steps=steps)
        for other, made in enumerate(self._made):
            if other != rank:
                made.release()
        return before


HANDOVERS: dict[str, type[SharedParameters]] = {
    "lock-free": SharedParameters,
    "lock": SharedParameters,
    "queue": QueuedParameters,
    "synchronous": SynchronousParameters,
}
