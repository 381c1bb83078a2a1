"""A game of a link, played again for its score alone."""

from collections.abc import Mapping
from typing import NamedTuple

from playback.episode import play
from ui.broadcast.chunks import MOST_STEPS, Ticket
from ui.broadcast.routes import ticket_of
from ui.broadcast.stream import agent_of


class Outcome(NamedTuple):
    """What a game came to."""

    ticket: Ticket
    """Which game: two links to the same one have the same ticket."""
    score: float
    """Its return, with all its takeovers."""
    steps: int


def replay(asked: Mapping[str, str]) -> Outcome:
    """Plays the game that a link's query names to its end, as every player does: a second or two for a thousand steps.

    Raises Refused, with a sentence, for what is no game, and what loading the agent raises.
    """
    ticket = ticket_of(asked)
    rules = {"greedy": ticket.greedy, "protocol": ticket.protocol, "perturbations": ticket.nudges}
    game = play(agent_of(ticket), ticket.seed, **rules, takeovers=ticket.takeovers, max_steps=MOST_STEPS)
    return Outcome(ticket, game.total, len(game.actions))
