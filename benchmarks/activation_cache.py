"""What the activation cache saves: one worker of Pong, with and without it.

    python -m benchmarks.activation_cache

The worker runs in this process with a single thread, as workers do, and pushes its gradients to nobody: it acts for a
rollout, then computes the gradient, 8 games of 32 steps as the recipe `pong` says. Turns with the cache and turns
without it follow each other, so both meet the same state of the machine.
"""

import time
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
import tyro

from a3c_core.activation_cache import ActivationCache
from a3c_core.devices import encoder_dtype
from a3c_core.envs import make_envs, spaces_of
from a3c_core.loss import a3c_loss, batch_of
from a3c_core.model import build_model
from a3c_core.recipe import Recipe
from a3c_core.rollout import Stepper
from a3c_core.worker import gradient_of
from benchmarks.results import PACKAGES, machine, save
from benchmarks.training_tables import activation_cache
from training.allocator import keep_freed_memory
from training.recipes import RECIPES

RECIPES_MEASURED = {
    "a3c, bfloat16": replace(RECIPES["pong"], encoder="a3c", precision="bfloat16"),
    "a3c, float32": replace(RECIPES["pong"], encoder="a3c", precision="float32"),
    "nature, bfloat16": replace(RECIPES["pong"], encoder="nature", precision="bfloat16"),
    "nature, float32": replace(RECIPES["pong"], encoder="nature", precision="float32"),
}
WARM_UP = 3
"""Rollouts before the count begins."""


class Trial(NamedTuple):
    """One turn."""

    recipe: str
    cached: bool
    steps: int
    seconds: float


def turns(name: str, recipe: Recipe, *, rounds: int, rollouts: int) -> list[Trial]:
    """`rounds` turns of each kind, with as many rollouts in each."""
    trials = []
    with closing(make_envs(recipe, recipe.envs_per_worker)) as envs:
        model = build_model(recipe, spaces_of(recipe))
        model.encoder.to(encoder_dtype(recipe))
        stepper, n_steps = Stepper(envs, recipe, model, seed=0), recipe.n_steps_of(0)
        cache = ActivationCache(model.encoder, recipe)

        def learn(*, cached: bool) -> None:
            rollout = stepper.rollout(model, n_steps, cache.record if cached else nullcontext)
            with cache.replay():
                gradient_of(a3c_loss(model, batch_of(rollout, recipe), recipe).total, model)

        for _ in range(WARM_UP):
            learn(cached=True)
            learn(cached=False)
        for _ in range(rounds):
            for cached in (True, False):
                started = time.perf_counter()
                for _ in range(rollouts):
                    learn(cached=cached)
                steps = rollouts * n_steps * recipe.envs_per_worker
                trials.append(Trial(name, cached, steps, time.perf_counter() - started))
    return trials


def main(rounds: int = 10, rollouts: int = 10, keep: bool = True) -> None:
    """Measure, and write results/activation_cache.json and README.md.

    Args:
        rounds: turns with the cache and as many without it.
        rollouts: in each turn.
        keep: write the result; --no-keep only prints it.
    """
    torch.set_num_threads(1)
    keep_freed_memory()
    trials = []
    for name, recipe in RECIPES_MEASURED.items():
        if recipe.precision == "bfloat16" and encoder_dtype(recipe) != torch.bfloat16:
            continue
        trials += turns(name, recipe, rounds=rounds, rollouts=rollouts)
    result = {"machine": machine(*PACKAGES), "trials": [trial._asdict() for trial in trials]}
    print(activation_cache(result)[-1])
    if keep:
        save("activation_cache", result)


if __name__ == "__main__":
    tyro.cli(main)
