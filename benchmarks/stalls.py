"""How often an agent's games go nowhere: the longest stretch without a reward in each of them.

    python -m benchmarks.stalls breakout
    python -m benchmarks.stalls runs/breakout/average --actions sampled --games 24 --first-seed 810000

The first command plays the games of the agent's classic score. A ball that flies in a circle, or a ship that hides,
shows as a long stretch; a game that only the cap of 108,000 frames ended is cut off.
"""

import sys
from typing import NamedTuple

import numpy as np
import tyro
from tyro.conf import Positional

import zoo
from a3c_core.agent import Agent
from a3c_core.envs import Protocol
from a3c_core.evaluation import Score, Stepped, evaluate
from training.commands.agents import agent_to_score


class Stalls(NamedTuple):
    """Of each game: its steps, the most of them without a reward, and whether it was cut off."""

    steps: np.ndarray
    longest: np.ndarray
    cut_off: np.ndarray


def stalls(
    agent: Agent, games: int, first_seed: int = 0, protocol: Protocol = "classic", *, greedy: bool
) -> tuple[Score, Stalls]:
    """Plays games with the seeds first_seed and following."""
    steps, since, longest = np.zeros((3, games), dtype=int)
    cut_off = np.zeros(games, dtype=bool)

    def watch(stepped: Stepped) -> None:
        game = stepped.game
        steps[game] += 1
        since[game] = np.where(stepped.reward == 0, since[game] + 1, 0)
        longest[game] = np.maximum(longest[game], since[game])
        cut_off[game] |= stepped.truncated

    score = evaluate(agent, games, greedy=greedy, protocol=protocol, first_seed=first_seed, watch=watch)
    return score, Stalls(steps, longest, cut_off)


def main(
    agent: Positional[str],
    /,
    games: int = 100,
    first_seed: int = 0,
    protocol: Protocol = "classic",
    actions: zoo.Actions = "recorded",
    sampling_temperature: float | None = None,
    most: int = 3000,
) -> None:
    """Tell how long an agent's games went without a reward.

    Args:
        agent: a name of the zoo, or a directory that training wrote.
        games: how many it plays.
        first_seed: seed of the first game; the next ones follow.
        protocol: by which rules.
        actions: greedy, sampled from the policy, or recorded: as the agent's entry in the zoo says.
        sampling_temperature: sample at another temperature than its recipe's.
        most: steps without a reward that count as a stall; Atari's run at 15 a second.
    """
    try:
        player, greedy = agent_to_score(agent, actions, sampling_temperature)
    except ValueError as error:
        sys.exit(f"error: {error}")
    score, found = stalls(player, games, first_seed, protocol, greedy=greedy)
    stalled = np.flatnonzero(found.longest > most)
    print(f"{agent}: {score.mean:.2f}, standard error {score.standard_error:.2f} ({score.conditions})")
    print(f"steps: median {np.median(found.steps):.0f}, most {found.steps.max():,}")
    print(f"the longest stretch without a reward: median {np.median(found.longest):.0f} steps")
    print(f"games with a stretch of more than {most:,} steps: {len(stalled)}; cut off: {found.cut_off.sum()}")
    for game in stalled[np.argsort(-found.longest[stalled])]:
        how = ", cut off" if found.cut_off[game] else ""
        told = f"{found.longest[game]:,} of {found.steps[game]:,} steps{how}"
        print(f"  seed {score.first_seed + game}: return {score.returns[game]:,.0f}, {told}")


if __name__ == "__main__":
    tyro.cli(main)
