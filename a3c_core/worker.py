"""The asynchronous loop (Mnih et al. 2016, algorithm S3) and what its workers share."""

import math
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor, nn
from torch import multiprocessing as mp
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from a3c_core.allocator import keep_freed_memory
from a3c_core.envs import Spaces, make_envs, training_seed
from a3c_core.loss import a3c_loss
from a3c_core.model import build_model
from a3c_core.optim import build_optimizers
from a3c_core.recipe import Recipe
from a3c_core.rollout import Stepper

MakeEnvs = Callable[[Recipe, int], VectorEnv]


class Shared:
    """What all workers write: the weights theta, the optimizer's state and the step count.

    Workers know nothing of it but three verbs: `pull` the newest weights, `push` a gradient, ask if they `go_on`.
    """

    def __init__(self, recipe: Recipe, weights: Tensor, context: BaseContext) -> None:
        self.recipe = recipe
        self.first_step = 0
        """Steps that the run had behind it when its workers were started."""
        self.goal = recipe.steps
        """Steps at which the workers end; to be set before they are started."""
        self.theta = nn.Parameter(weights.to(device_of(recipe.shared_device), copy=True).share_memory_())
        self.optimizers = build_optimizers(self.theta, recipe)
        self._steps = context.Value("q", 0)
        self._updates = context.Value("q", 0)
        self._stop = context.RawValue("b", False)
        self._turn = nullcontext() if recipe.lock_free else context.Lock()

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

    def should_continue(self) -> bool:
        """Whether there are steps left and nobody asked to stop."""
        return self.steps < self.goal and not self._stop.value

    def pull(self, weights: list[Tensor]) -> int:
        """Copies the newest weights into a worker's own (see `flatten`); returns the updates that they have seen."""
        with self._turn:
            for part, newest in zip(weights, self.theta.detach().split([len(w) for w in weights]), strict=True):
                part.copy_(newest)
        return self._updates.value

    def push(self, gradient: Tensor, *, rank: int, steps: int) -> int:
        """Steps the shared optimizer with a worker's gradient; returns the updates that were made before this one."""
        optimizer = self.optimizers[rank % len(self.optimizers)]
        optimizer.param_groups[0]["lr"] = self.recipe.learning_rate_at(self.steps)
        (theta,) = optimizer.param_groups[0]["params"]
        theta.grad = gradient.to(theta.device)
        with self._turn:
            optimizer.step()
        with self._steps.get_lock():
            self._steps.value += steps
        with self._updates.get_lock():
            self._updates.value += 1
            return self._updates.value - 1


class Report(NamedTuple):
    """What a worker tells of one update."""

    rank: int
    returns: list[float]
    """True returns of the episodes that ended."""
    policy_loss: float
    value_loss: float
    entropy: float
    explained_variance: float
    gradient_norm: float
    """2-norm of the whole gradient before it was clipped."""
    staleness: int
    """Updates of other workers between this one's pull and its push."""
    active: list[np.ndarray]
    """For each ReLU layer in order, bool [units]: which were active in this rollout."""


class Failure(NamedTuple):
    """A worker's last words."""

    rank: int
    traceback: str


def work(rank: int, recipe: Recipe, spaces: Spaces, shared: Shared, report: Callable, make: MakeEnvs) -> None:
    """One worker, until the run's steps are done: pull, step, learn, push."""
    envs = make(recipe, recipe.envs_per_worker)
    model = build_model(recipe, spaces).to(device_of(recipe.device, rank))
    model.encoder.to(encoder_dtype(recipe))
    weights = flatten(model)
    stepper = Stepper(envs, recipe, model, training_seed(recipe, rank, shared.first_step))
    n_steps = recipe.n_steps_of(rank)

    while shared.should_continue():
        seen = shared.pull(weights)
        rollout = stepper.rollout(model, n_steps)
        with Activity(model) as activity:
            losses = a3c_loss(model, rollout, recipe)
        gradient, norm = clip(gradient_of(losses.total, model), recipe.max_gradient_norm)
        if not math.isfinite(norm):
            raise FloatingPointError("the gradient is not finite any more: lower the learning rate, or clip gradients")
        before = shared.push(gradient, rank=rank, steps=rollout.rewards.numel())
        parts = (losses.policy, losses.value, losses.entropy, losses.explained_variance)
        report(Report(rank, stepper.finished, *(part.item() for part in parts), norm, before - seen, activity.active))
    envs.close()


def device_of(kind: str, rank: int = 0) -> torch.device:
    """The CPU, or the GPU of worker `rank`, who take them in turn. Raises ValueError where there is none."""
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError("there is no CUDA device here: train with --device cpu --shared-device cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())


def encoder_dtype(recipe: Recipe) -> torch.dtype:
    """What the encoder computes with: bfloat16 only where the recipe asks for it and the hardware has it."""
    fast = torch.cuda.is_available() if recipe.device == "cuda" else torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if recipe.precision == "bfloat16" and fast else torch.float32


def flatten(model: nn.Module) -> list[Tensor]:
    """Makes the parameters of `model` views of one vector per run of equal types, and returns these vectors.

    One after the other they have the order of the shared weights, so pulling is a copy, whatever the types.
    """
    runs: list[list[nn.Parameter]] = []
    for parameter in model.parameters():
        if runs and runs[-1][0].dtype == parameter.dtype:
            runs[-1].append(parameter)
        else:
            runs.append([parameter])
    vectors = [parameters_to_vector(run).detach() for run in runs]
    for vector, run in zip(vectors, runs, strict=True):
        vector_to_parameters(vector, run)
    return vectors


class Activity:
    """Watches, while it is open, which units of each ReLU layer are active for any input of the batch.

    A unit that never is gets no gradient any more: it is dead.
    """

    def __init__(self, model: nn.Module) -> None:
        self.active: list[np.ndarray] = []
        """For each layer in order, bool [units]; a filter counts as one unit."""
        self._layers = [layer for layer in model.modules() if isinstance(layer, nn.ReLU)]

    def __enter__(self) -> "Activity":
        self._hooks = [layer.register_forward_hook(self._see) for layer in self._layers]
        return self

    def _see(self, layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        inputs_and_places = [dim for dim in range(output.dim()) if dim != 1]
        total = output.detach().sum(inputs_and_places)  # nothing is negative; a maximum is 30 times slower on a CPU
        self.active.append((total > 0).cpu().numpy())

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()


def gradient_of(loss: Tensor, model: nn.Module) -> Tensor:
    """The loss's gradient for all of the model's parameters, as one float32 vector in their order."""
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([gradient.flatten().float() for gradient in gradients])


def clip(gradient: Tensor, max_norm: float | None) -> tuple[Tensor, float]:
    """The gradient scaled down to `max_norm` if it is longer, and the 2-norm that it had."""
    norm = gradient.norm().item()
    if max_norm is not None and norm > max_norm:
        gradient *= max_norm / norm
    return gradient, norm


def worker_process(
    rank: int, recipe: Recipe, spaces: Spaces, shared: Shared, reports: Connection, make: MakeEnvs = make_envs
) -> None:
    """Entry point of a worker's process: sends Reports, or a Failure as its last word; never outlives its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=die_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.manual_seed(training_seed(recipe, rank, shared.first_step))
    try:
        work(rank, recipe, spaces, shared, reports.send, make)
    except Exception:
        reports.send(Failure(rank, traceback.format_exc()))
        raise SystemExit(1) from None


def die_with_parent() -> None:
    """Kills this process once its parent has ended; to be run in a thread."""
    mp.parent_process().join()
    signal.raise_signal(signal.SIGKILL)
