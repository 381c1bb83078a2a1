"""Where an agent loses its lives: by what the game has returned so far, how many steps it plays for each life it loses.

    python -m benchmarks.lives_lost zoo/weights/breakout_sticky --width 36

Breakout's first wall is worth 432 points. A life that is lost at the end of a game counts; where the time limit ended
the game, none does.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tyro
from tyro.conf import Positional

from a3c_core.agent import Agent
from a3c_core.checkpoint import load_agent
from a3c_core.envs import Protocol
from a3c_core.evaluation import Score, Stepped, evaluate
from benchmarks.text import table


class Lives(NamedTuple):
    """Of each step of all games, in the order in which they were played."""

    points: np.ndarray
    """The return before the step, float [steps]."""
    lost: np.ndarray
    """Whether a life was lost in it, bool [steps]."""


def play(agent: Agent, games: int, protocol: Protocol, first_seed: int, *, greedy: bool) -> tuple[Score, Lives]:
    """Plays games with the seeds first_seed and following."""
    returns = np.zeros(games)
    lives = np.zeros(games, dtype=int)
    points, lost = [], []

    def watch(stepped: Stepped) -> None:
        game = stepped.game
        points.append(returns[game])
        lost.append(stepped.lives < lives[game])
        returns[game] += stepped.reward
        lives[game] = stepped.lives

    score = evaluate(agent, games, greedy=greedy, protocol=protocol, first_seed=first_seed, watch=watch)
    return score, Lives(np.concatenate(points), np.concatenate(lost))


def rows(found: Lives, width: int) -> list[tuple[str, int, int, str]]:
    """For each `width` points: the steps that began there, the lives lost in them, and the steps for each of these."""
    places = (found.points // width).astype(int)
    steps, lost = np.bincount(places), np.bincount(places, found.lost).astype(int)
    return [
        (f"{place * width:,} to {(place + 1) * width - 1:,}", played, gone, f"{played / gone:,.0f}" if gone else "")
        for place, (played, gone) in enumerate(zip(steps, lost, strict=True))
        if played
    ]


def main(
    agents: Positional[tuple[Path, ...]],
    /,
    games: int = 24,
    protocol: Protocol = "classic",
    first_seed: int = 800_000,
    width: int = 36,
    greedy: bool = False,
) -> None:
    """Tell where agents lose their lives.

    Args:
        agents: directories of trainings or of the zoo's weights, of games with lives.
        games: how many each of them plays.
        protocol: by which rules.
        first_seed: seed of the first game; the next ones follow.
        width: points of a row.
        greedy: whether the likeliest action is taken, or one drawn from the policy.
    """
    for path in agents:
        score, found = play(load_agent(path), games, protocol, first_seed, greedy=greedy)
        if not found.lost.any():
            sys.exit(f"error: {path} lost no life: {score.env} has none, or every game was cut off")
        print(f"{path}: {score.mean:.1f} ± {score.standard_error:.1f} ({score.conditions})\n")
        print(table(("return so far", "steps", "lives lost", "steps for each"), rows(found, width)), "\n")


if __name__ == "__main__":
    tyro.cli(main)
