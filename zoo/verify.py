"""Is an agent what its record says? Scores are played again, hashes taken again."""

import math
from collections.abc import Callable
from dataclasses import replace

from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError, printable
from a3c_core.evaluation import Score, evaluate

ROUNDING = 0.01
"""Share of a return by which rounding alone may change it, where actions are continuous."""


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

    The seed determines a game but for rounding: another processor sums in another order, and once in thousands of steps
    that turns an action into another, after which the game is another too. So most games must end as recorded, and the
    others must differ by chance alone: see `tolerance`.

    Raises Contradiction where that is not so, or where environment or steps are not those of the record.
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
        same = games_alike(played, score)
        mean = abs(score.mean - played.mean)
        honest = 2 * same > games and mean <= tolerance(played, score)
        if not honest or (score.env, score.steps) != (claim.env, claim.steps):
            raise Contradiction(
                f"the record claims {played.mean:.2f} ± {played.std:.2f} on {printable(claim.env)} after "
                f"{claim.steps:,} steps ({played.conditions}), but the agent, after {score.steps:,} steps, scores "
                f"{score.mean:.2f} ± {score.std:.2f} in these games, {same} of which end as recorded: "
                "the record is not this agent's. Score it again."
            )
        scores.append(score)
    return scores


def games_alike(claim: Score, score: Score) -> int:
    """How many games of two scores with the same seeds have the same return, but for rounding."""
    return sum(_alike(before, now) for before, now in zip(claim.returns, score.returns, strict=True))


def _alike(before: float, now: float) -> bool:
    return abs(now - before) <= ROUNDING * max(1.0, abs(before))


def tolerance(claim: Score, score: Score) -> float:
    """How far apart the means of two scores with the same seeds may be.

    The games that end alike add at most their rounding. The k others of n are as good as games of other seeds, with the
    standard deviation s: the mean of their differences, over all n, has the standard error sqrt(2 k) s / n, and two of
    these are allowed.
    """
    games = len(claim.returns)
    others = games - games_alike(claim, score)
    rounding = ROUNDING * sum(max(1.0, abs(value)) for value in claim.returns) / games
    return rounding + 2.0 * math.sqrt(2 * others) * max(claim.std, score.std) / games
