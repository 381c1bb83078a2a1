"""How often an agent's games go nowhere: the longest stretch without a reward in each of its scored games.

    python -m benchmarks.stalls breakout

The games are those of the agent's classic score. A ball that flies in a circle, or a ship that hides, shows as a long
stretch; a game that only the cap of 108,000 frames ended is cut off.
"""

import sys
from typing import NamedTuple

import numpy as np
import tyro
from tyro.conf import Positional

import zoo
from a3c_core.evaluation import Score, Stepped, evaluate


class Stalls(NamedTuple):
    """Of each game: its steps, the most of them without a reward, and whether it was cut off."""

    steps: np.ndarray
    longest: np.ndarray
    cut_off: np.ndarray


def stalls(agent: str, games: int | None = None) -> tuple[Score, Stalls]:
    """Plays the games of an agent's score again, the first `games` of them."""
    claim = zoo.entries()[agent].score
    games = games or len(claim.returns)
    steps, since, longest = np.zeros((3, games), dtype=int)
    cut_off = np.zeros(games, dtype=bool)

    def watch(stepped: Stepped) -> None:
        game = stepped.game
        steps[game] += 1
        since[game] = np.where(stepped.reward == 0, since[game] + 1, 0)
        longest[game] = np.maximum(longest[game], since[game])
        cut_off[game] |= stepped.truncated

    score = evaluate(zoo.load(agent), games, greedy=claim.greedy, first_seed=claim.first_seed, watch=watch)
    return score, Stalls(steps, longest, cut_off)


def main(agent: Positional[str], /, games: int | None = None, most: int = 3000) -> None:
    """Tell how long an agent's games went without a reward.

    Args:
        agent: a name of the zoo.
        games: how many of its scored games; all of them where it is not said.
        most: steps without a reward that count as a stall; Atari's run at 15 a second.
    """
    if agent not in zoo.entries():
        sys.exit(f"There is no agent {agent!r}: choose one of {', '.join(zoo.entries())}.")
    score, found = stalls(agent, games)
    stalled = np.flatnonzero(found.longest > most)
    print(f"{agent}: {score.mean:.2f} ± {score.std:.2f} ({score.conditions})")
    print(f"steps: median {np.median(found.steps):.0f}, most {found.steps.max():,}")
    print(f"the longest stretch without a reward: median {np.median(found.longest):.0f} steps")
    print(f"games with a stretch of more than {most:,} steps: {len(stalled)}; cut off: {found.cut_off.sum()}")
    for game in stalled[np.argsort(-found.longest[stalled])]:
        how = ", cut off" if found.cut_off[game] else ""
        told = f"{found.longest[game]:,} of {found.steps[game]:,} steps{how}"
        print(f"  seed {score.first_seed + game}: return {score.returns[game]:,.0f}, {told}")


if __name__ == "__main__":
    tyro.cli(main)
