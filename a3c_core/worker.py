"""The asynchronous loop of a worker (Mnih et al. 2016, algorithm S3)."""

import math
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor, nn
from torch import multiprocessing as mp
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from a3c_core.activation_cache import ActivationCache
from a3c_core.allocator import keep_freed_memory
from a3c_core.envs import REGISTERED, Registration, Spaces, install, make_envs, training_seed
from a3c_core.loss import a3c_loss, batches
from a3c_core.model import REGISTERED_ENCODERS, MakeEncoder, build_model
from a3c_core.recipe import Recipe
from a3c_core.rollout import Stepper
from a3c_core.shared import Parameters, device_of

MakeEnvs = Callable[[Recipe, int], VectorEnv]


class Extensions(NamedTuple):
    """What the user registered in the parent process, for a worker to know too."""

    envs: tuple[Registration, ...]
    encoders: dict[str, MakeEncoder]

    @classmethod
    def registered(cls) -> "Extensions":
        """All that is registered in this process."""
        return cls(tuple(REGISTERED.values()), dict(REGISTERED_ENCODERS))

    def install(self) -> None:
        """Registers all of it in this process."""
        REGISTERED_ENCODERS.update(self.encoders)
        for registration in self.envs:
            install(registration)


class Report(NamedTuple):
    """What a worker tells of one update."""

    rank: int
    returns: list[float]
    """True returns of the episodes that ended."""
    policy_loss: float
    value_loss: float
    entropy: float
    explained_variance: float
    clipped: float
    """Share of the steps beyond the clip, in the passes that have one."""
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


def work(
    rank: int, recipe: Recipe, spaces: Spaces, shared: Parameters, report: Callable[[Report], object], make: MakeEnvs
) -> None:
    """One worker, until the run's steps are done: pull, step, learn, push."""
    envs = make(recipe, recipe.envs_per_worker)
    model = build_model(recipe, spaces).to(device_of(recipe.device, rank))
    model.encoder.to(encoder_dtype(recipe))
    weights = flatten(model)
    shared.normalize(model)
    stepper = Stepper(envs, recipe, model, training_seed(recipe, rank, shared.first_step))
    cache = ActivationCache(model.encoder)
    recording = cache.record if recipe.minibatches == 1 and not recipe.vtrace else nullcontext
    n_steps = recipe.n_steps_of(rank)

    while shared.should_continue():
        seen = shared.pull(weights)
        rollout = stepper.rollout(model, n_steps, recording)
        steps, returns = rollout.rewards.numel(), stepper.finished
        if recipe.vtrace:
            seen = shared.pull(weights)  # what others have learnt meanwhile is what the targets are corrected for
        for number, batch in enumerate(batches(rollout, recipe, model)):
            if number > 0:
                seen = shared.pull(weights)
            with Activity(model) as activity, cache.replay():
                losses = a3c_loss(model, batch, recipe)
            gradient, norm = clip(gradient_of(losses.total, model), recipe.max_gradient_norm)
            if not math.isfinite(norm):
                raise FloatingPointError("the gradient is not finite: lower the learning rate, or clip gradients")
            before = shared.push(gradient, rank=rank, steps=steps)
            _, *parts = (part.item() for part in losses)
            report(Report(rank, returns, *parts, norm, before - seen, activity.active))
            steps, returns = 0, []  # counted with the rollout's first gradient
        shared.normalize(model, stepper.moments)
    envs.close()


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
    rank: int,
    recipe: Recipe,
    spaces: Spaces,
    shared: Parameters,
    reports: Connection,
    make: MakeEnvs = make_envs,
    extensions: Extensions | None = None,
) -> None:
    """Entry point of a worker's process: sends Reports, or a Failure as its last word; never outlives its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=die_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.manual_seed(training_seed(recipe, rank, shared.first_step))
    try:
        if extensions:
            extensions.install()
        work(rank, recipe, spaces, shared, reports.send, make)
    except Exception:
        reports.send(Failure(rank, traceback.format_exc()))
        raise SystemExit(1) from None


def die_with_parent() -> None:
    """Kills this process once its parent has ended; to be run in a thread."""
    mp.parent_process().join()
    signal.raise_signal(signal.SIGKILL)
