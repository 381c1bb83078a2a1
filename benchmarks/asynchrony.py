"""What asynchrony buys and costs: CartPole's recipe trained as A2C and as A3C, mean return against steps and seconds.

    pip install -r benchmarks/requirements.txt
    python -m benchmarks.asynchrony

A2C is the recipe with one worker that steps all environments; A3C is the recipe as it ships, two workers that step half
of them each and write the shared weights without waiting. All else is the same. Every training runs alone, in a fresh
process that has trained for a moment before, as the page's has, so that nobody imports anything on the clock; the two
take turns, seed by seed, so that a machine that slows down slows both. The clock is the run's own: starting the workers
counts. All points of each curve are kept.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import tyro

from benchmarks.results import PACKAGES, machine, save

GOAL = 475.0
MOMENT = 2_000
"""Steps of the training before."""


class Trial(NamedTuple):
    """One training; the last three hold a number per moment at which there was a mean return."""

    kind: str
    seed: int
    workers: int
    envs_per_worker: int
    steps: list[int]
    seconds: list[float]
    returns: list[float]
    """Means of the last 100 training episodes, or of all there were."""


WORKERS = {"A2C": 1, "A3C": 2}


def train(kind: str, seed: int, steps: int | None) -> Trial:
    """One training from nothing to the recipe's last step, or for `steps`."""
    from training.recipes import RECIPES
    from training.run import train

    shipped, workers = RECIPES["cartpole"], WORKERS[kind]
    recipe = dataclasses.replace(
        shipped,
        seed=seed,
        workers=workers,
        envs_per_worker=shipped.workers * shipped.envs_per_worker // workers,
        steps=steps or shipped.steps,
    )
    with tempfile.TemporaryDirectory() as directory:
        list(train(dataclasses.replace(recipe, steps=MOMENT), Path(directory) / "before"))
        moments = [moment for moment in train(recipe, Path(directory) / "run") if moment.mean_return is not None]
    return Trial(
        kind,
        seed,
        recipe.workers,
        recipe.envs_per_worker,
        [moment.steps for moment in moments],
        [round(moment.seconds, 3) for moment in moments],
        [round(moment.mean_return, 2) for moment in moments],
    )


def main(seeds: int = 5, steps: int | None = None, keep: bool = True) -> None:
    """Run all trainings, one at a time, and write ui/agents/asynchrony.json and README.md.

    Args:
        seeds: trainings of each kind.
        steps: of each training, to try the script; by default the recipe's.
        keep: write the result; --no-keep only prints it.
    """
    trials = []
    for seed in range(seeds):
        for kind in WORKERS:
            command = [sys.executable, "-m", "benchmarks.asynchrony", "trial", kind, str(seed), str(steps or "")]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            trials.append(Trial(**json.loads(done.stdout.splitlines()[-1])))
            print(kind, seed, *(f"{series[-1]:g}" for series in trials[-1][4:]), flush=True)
    result = {"machine": machine(*PACKAGES), "goal": GOAL, "trials": [trial._asdict() for trial in trials]}
    if keep:
        save("asynchrony", result)
    else:
        print(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[1:2] == ["trial"]:
        kind, seed, steps = sys.argv[2:]
        print(json.dumps(train(kind, int(seed), int(steps) if steps else None)._asdict()))
    else:
        tyro.cli(main)
