"""Is an agent what its record says? Scores are played again, hashes taken again."""

import math
from collections.abc import Callable
from dataclasses import replace

from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError, printable
from a3c_core.evaluation import Score, evaluate


class Contradiction(CheckpointError):
    """An agent does not score what its record says."""


def rescore(
    agent: Agent,
    claims: list[Score],
    *,
    episodes: int | None = None,
    progress: Callable[[int], None] = lambda finished: None,
) -> list[Score]:
    """The scores of `agent` under the conditions of its record's, played again: all games or the first `episodes`.

    Raises Contradiction where the mean of these games is more than two standard errors (of the difference of two such
    means) and more than a hundredth away from what the record says of them.
    """
    scores = []
    for claim in claims:
        games = len(claim.returns) if episodes is None else min(episodes, len(claim.returns))
        score = evaluate(
            agent,
            games,
            greedy=claim.greedy,
            protocol=claim.protocol,
            first_seed=claim.first_seed,
            progress=progress,
        )
        played = replace(claim, returns=claim.returns[:games])
        error = math.sqrt(2 / games) * max(score.std, claim.std)  # the spread of a few games would be too small
        close = abs(score.mean - played.mean) <= max(2 * error, abs(claim.mean) / 100)
        if not close or (score.env, score.steps) != (claim.env, claim.steps):
            raise Contradiction(
                f"the record claims {played.mean:.2f} ± {played.std:.2f} on {printable(claim.env)} after "
                f"{claim.steps:,} steps ({played.conditions}), but the agent, after {score.steps:,} steps, scores "
                f"{score.mean:.2f} ± {score.std:.2f} in these games: the record is not this agent's. Score it anew."
            )
        scores.append(score)
    return scores
