"""How far trainings had come after so many hours, from their logs: an old recipe beside a new one.

    python -m benchmarks.score_by_hours "one pass=runs/Pong-v5-seed0-1" "three passes=runs/Pong-v5-seed0-2"

Prints a table. The score is the mean return of the last 100 training episodes, whose actions are sampled; a training
with sticky actions plays these by that rule. The hours are those of the log: what ran beside a training is not in it.
"""

import sys
from pathlib import Path

import tyro
from tyro.conf import Positional

from benchmarks.text import table
from training.log import Progress, read_log

HOURS = (0.1, 0.25, 0.5, 1.0, 3.0, 10.0)


def after(log: list[Progress], hours: float) -> str:
    """The mean return after so many hours, and the steps; empty where the training ended before."""
    if log[-1].seconds < hours * 3600:
        return ""
    line = [line for line in log if line.seconds <= hours * 3600][-1]
    return f"{line.mean_return:.1f} ({line.steps / 1e6:.1f}M)" if line.mean_return is not None else ""


def main(runs: Positional[tuple[str, ...]], /) -> None:
    """Print the mean return of each training after some hours.

    Args:
        runs: what each training is called, and its directory: NAME=DIRECTORY.
    """
    rows = []
    for run in runs:
        name, _, directory = run.partition("=")
        if not (directory and (log := read_log(Path(directory)))):
            sys.exit(f"error: {run!r} names no training: say NAME=DIRECTORY, where the directory has a log")
        ends = log[-1].seconds / 3600
        rows.append((name, *(after(log, hours) for hours in HOURS), f"{after(log, ends)} after {ends:.1f} hours"))
    print(table(("training", *(f"{hours:g} h" for hours in HOURS), "at its end"), rows))


if __name__ == "__main__":
    tyro.cli(main)
