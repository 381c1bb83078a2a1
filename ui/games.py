"""What the page says of each game, and the one colour it lends to the page."""

from typing import NamedTuple


class GameInfo(NamedTuple):
    """A game as visitors meet it."""

    name: str
    goal: str
    """What a good score is, in a sentence."""
    accent: str
    """Colour on a light page; 4.5:1 against it, so that it can be text."""
    accent_dark: str
    """The same on a dark page."""


GAMES: dict[str, GameInfo] = {
    "CartPole-v1": GameInfo(
        "CartPole",
        "Keep the pole upright by pushing the cart: a point for every step, 500 at most.",
        "#9a5b00",
        "#f2b45c",
    ),
    "Pendulum-v1": GameInfo(
        "Pendulum",
        "Swing the rod up and hold it there: every step costs by angle, speed and effort, so 0 would be perfect.",
        "#b3263a",
        "#ff8f94",
    ),
    "BipedalWalker-v3": GameInfo(
        "Bipedal Walker",
        "Walk to the far end on two legs without a fall: about 300 points, less what the motors use.",
        "#0e6b63",
        "#6fd3c7",
    ),
    "BipedalWalkerHardcore-v3": GameInfo(
        "Bipedal Walker Hardcore",
        "The same walk over stumps, pits and stairs: about 300 points for the whole way, and a fall costs 100.",
        "#5b5a12",
        "#d3cf6d",
    ),
    "ALE/Pong-v5": GameInfo(
        "Pong",
        "First to 21 points. The return is the difference in points: 21 is a perfect game, -21 the worst.",
        "#1f5fa8",
        "#86bdf5",
    ),
    "ALE/Breakout-v5": GameInfo(
        "Breakout",
        "Points for every brick, more for the higher rows; a game has two walls of 432 points.",
        "#8a3ab0",
        "#d7a5f5",
    ),
    "ALE/SpaceInvaders-v5": GameInfo(
        "Space Invaders",
        "Points for every invader, more for the higher rows, and 200 for the mystery ship.",
        "#2d6b1f",
        "#8fd67c",
    ),
}


def game_of(env: str) -> GameInfo:
    """The game of an environment; one without a text of its own goes by its id."""
    return GAMES.get(env, GameInfo(env, "", "#1f5fa8", "#86bdf5"))
