"""A game of a link, played again for its score alone."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from playback.episode import play
from ui.streaming.chunks import MOST_STEPS, EpisodeSpec
from ui.streaming.routes import spec_of
from ui.streaming.stream import agent_of


class Outcome(NamedTuple):
    """What a game came to."""

    spec: EpisodeSpec
    """Which game: two links to the same one have the same spec."""
    score: float
    """Its return, with all its takeovers."""
    actions: np.ndarray
    """What was done in each of its steps, by hand or by the agent."""

    @property
    def steps(self) -> int:
        """How long it was."""
        return len(self.actions)


def replay(asked: Mapping[str, str], progress: Callable[[int], None] = lambda steps: None) -> Outcome:
    """Plays the game that a link's query names to its end, as every player does: a second or two for a thousand steps.

    `progress` is called with the number of steps after each step. Raises Refused, with a sentence, for what is no game,
    and what loading the agent raises.
    """
    spec = spec_of(asked)
    rules = {"greedy": spec.greedy, "protocol": spec.protocol, "perturbations": spec.nudges}
    limits = {"max_steps": MOST_STEPS, "progress": progress}
    game = play(agent_of(spec), spec.seed, **rules, takeovers=spec.takeovers, **limits)
    return Outcome(spec, game.total, game.actions)
