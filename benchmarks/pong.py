"""How long Pong takes from nothing: the recipe `pong`, until the mean of the last 100 training episodes reaches 18.

    python -m benchmarks.pong      # five seeds, at most 16 minutes each

Every training runs alone, in a fresh process, as `python -m training train pong --seed SEED` runs it; nothing else
should run. The clock is the run's own: starting the workers counts, importing torch does not. Each log is kept,
thinned to a line per half a minute.
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

GOAL = 18.0
APART = 30.0
"""Seconds between two lines that are kept of a log."""


class Line(NamedTuple):
    """A line of a training's log."""

    seconds: float
    steps: int
    episodes: int
    mean_return: float | None
    """Of the last 100 training episodes, or of all there were; None before the first."""


def trial(seed: int, limit: float) -> tuple[bool, list[Line]]:
    """One training: whether it reached the goal within `limit` seconds, and its log up to there."""
    from training.recipes import RECIPES
    from training.run import train

    solved, lines = False, []
    with tempfile.TemporaryDirectory() as directory:
        run = train(dataclasses.replace(RECIPES["pong"], seed=seed), Path(directory) / "run")
        for moment in run:
            line = Line(round(moment.seconds, 1), moment.steps, moment.episodes, moment.mean_return)
            solved = line.episodes >= 100 and line.mean_return >= GOAL
            ended = solved or moment.seconds >= limit
            if ended or not lines or line.seconds - lines[-1].seconds >= APART:
                lines.append(line)
            if ended:
                break
        run.close()
    return solved, lines


def main(seeds: int = 5, minutes: float = 16.0, keep: bool = True) -> None:
    """Run all trainings, one at a time, and write results/pong.json and README.md.

    Args:
        seeds: trainings, of seeds 0, 1 and so on.
        minutes: after which a training is given up.
        keep: write the result; --no-keep only prints it.
    """
    trials = []
    for seed in range(seeds):
        command = [sys.executable, "-m", "benchmarks.pong", "trial", str(seed), str(60 * minutes)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        solved, lines = json.loads(done.stdout.splitlines()[-1])
        print(f"seed {seed}: {'solved' if solved else 'given up'},", Line(*lines[-1]), flush=True)
        trials.append({"seed": seed, "solved": solved, "columns": Line._fields, "log": lines})
        if keep:
            save("pong", {"machine": machine(*PACKAGES), "goal": GOAL, "minutes": minutes, "trials": trials})


if __name__ == "__main__":
    if sys.argv[1:2] == ["trial"]:
        print(json.dumps(trial(int(sys.argv[2]), float(sys.argv[3]))))
    else:
        tyro.cli(main)
