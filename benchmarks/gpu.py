"""A3G and beyond on a machine with GPUs: steps per second of each placement, and the time until Pong's mean reaches 20.

    python -m benchmarks.gpu

Placements: everything on the CPU; each worker's network on a GPU and the shared weights on the CPU, as A3G has it
(rl_a3c_pytorch); the shared weights on the GPU too. The fastest of them then trains the recipe `pong` until the mean
return of the last 100 training episodes is 20.
"""

import dataclasses
import json
import os
from pathlib import Path

import torch
import tyro

from benchmarks.speed import stretch_of
from training.recipes import RECIPES
from training.run import train

PLACEMENTS = {
    "all on the CPU": {"device": "cpu", "shared_device": "cpu"},
    "networks on the GPU (A3G)": {"device": "cuda", "shared_device": "cpu"},
    "networks and shared weights on the GPU": {"device": "cuda", "shared_device": "cuda"},
}


def main(
    workers: int = os.cpu_count() or 1, seconds: float = 30.0, goal: float = 20.0, out: Path = Path("runs/gpu")
) -> None:
    """Measure each placement, then train with the fastest.

    Args:
        workers: asynchronous workers.
        seconds: how long each placement is measured.
        goal: mean return of the last 100 training episodes at which the training ends.
        out: directory of the training, with speeds.json.
    """
    recipe = dataclasses.replace(RECIPES["pong"], workers=workers)
    rates: dict[str, float] = {}
    for name, placement in PLACEMENTS.items():
        if placement["device"] == "cpu" or torch.cuda.is_available():
            steps, took = stretch_of(dataclasses.replace(recipe, **placement), seconds)
            rates[name] = steps / took
            print(f"{name}: {rates[name]:,.0f} steps/s with {workers} workers", flush=True)
    fastest = max(rates, key=rates.get)
    run = train(dataclasses.replace(recipe, **PLACEMENTS[fastest]), out)
    for moment in run:
        if moment.episodes >= 100 and moment.mean_return >= goal:
            print(f"{fastest}: a mean of {goal} after {moment.steps:,} steps and {moment.seconds / 60:.1f} min")
            break
    run.close()
    (out / "speeds.json").write_text(json.dumps(rates, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
