"""Is an agent what its record says? Scores are played again, hashes taken again."""

import math
from collections.abc import Callable

from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError
from a3c_core.play import Score, evaluate


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

    Raises Contradiction where a mean is more than two standard errors (of the difference of two such means) and more
    than a hundredth away.
    """
    scores = []
    for claim in claims:
        games = min(episodes or len(claim.returns), len(claim.returns))
        score = evaluate(
            agent,
            games,
            greedy=claim.greedy,
            protocol=claim.protocol,
            first_seed=claim.first_seed,
            progress=progress,
        )
        margin = max(2 * math.hypot(score.standard_error, claim.standard_error), abs(claim.mean) / 100)
        if (score.env, score.steps) != (claim.env, claim.steps) or abs(score.mean - claim.mean) > margin:
            raise Contradiction(
                f"the record claims {claim.mean:.2f} ± {claim.std:.2f} on {claim.env} after {claim.steps:,} steps "
                f"({claim.conditions}), but the agent, after {score.steps:,} steps, scores {score.mean:.2f} ± "
                f"{score.std:.2f} over {games} of these games: the record is not this agent's. Score it anew."
            )
        scores.append(score)
    return scores
