"""The asynchronous loop of a worker (Mnih et al. 2016, algorithm S3)."""

import math
from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from a3c_core.activity import active_units
from a3c_core.devices import device_of, encoder_dtype
from a3c_core.envs import Spaces, training_seed
from a3c_core.loss import a3c_loss
from a3c_core.model import build_model
from a3c_core.passes import batches
from a3c_core.recipe import Recipe
from a3c_core.rollout import Stepper
from a3c_core.shared import Parameters

MakeEnvs = Callable[[Recipe, int], VectorEnv]


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
    """For each ReLU layer in order, bool [units]: which were active in a sample of this batch."""


def work(
    rank: int, recipe: Recipe, spaces: Spaces, shared: Parameters, report: Callable[[Report], object], make: MakeEnvs
) -> None:
    """One worker, until the run's steps are done: pull, step, learn, push."""
    recipe = recipe.of_worker(rank)
    envs = make(recipe, recipe.envs_per_worker)
    model = build_model(recipe, spaces).to(device_of(recipe.device, rank))
    model.encoder.to(encoder_dtype(recipe))
    weights = flatten(model)
    shared.normalize(model)
    stepper = Stepper(envs, recipe, model, training_seed(recipe, rank, shared.first_step))

    while shared.should_continue():
        seen = shared.pull(weights)
        rollout = stepper.rollout(model, recipe.n_steps[0])
        steps, returns = rollout.rewards.numel(), stepper.finished
        if recipe.vtrace:
            seen = shared.pull(weights)  # what others have learnt meanwhile is what the targets are corrected for
        for number, batch in enumerate(batches(rollout, recipe, model)):
            if number > 0:
                seen = shared.pull(weights)
            with active_units(model) as active:
                losses = a3c_loss(model, batch, recipe)
            gradient, norm = clip(gradient_of(losses.total, model), recipe.max_gradient_norm)
            if not math.isfinite(norm):
                raise FloatingPointError("the gradient is not finite: lower the learning rate, or clip gradients")
            before = shared.push(gradient, rank=rank, steps=steps)
            _, *parts = (part.item() for part in losses)
            report(Report(rank, returns, *parts, norm, before - seen, active))
            steps, returns = 0, []  # counted with the rollout's first gradient
        shared.normalize(model, stepper.moments)
    envs.close()


def flatten(model: nn.Module) -> list[Tensor]:
    """Makes the parameters of `model` views of one vector per run of equal types, and returns these vectors.

    One after the other they have the order of the shared weights, so pulling is a copy, whatever the types.
    """
    vectors = []
    for _, run in groupby(list(model.parameters()), key=lambda parameter: parameter.dtype):
        parameters = list(run)
        vectors.append(parameters_to_vector(parameters).detach())
        vector_to_parameters(vectors[-1], parameters)
    return vectors


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
