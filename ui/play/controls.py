"""What a visitor's fingers do to a game: held keys become one action for each step."""

from typing import NamedTuple

WORDS = ("left", "right", "up", "down", "fire")
"""All that can be held; a game's actions are made of these, and of "wait"."""
AGENT = "agent"
"""Held in place of these while the agent has the controls of a game that was taken over."""


class Controls(NamedTuple):
    """How a game is played by hand."""

    keys: str
    """What the arrow keys do, in a sentence."""
    rule: str
    """What else one has to know, with keys or thumbs."""
    buttons: tuple[str, ...]
    """What a touch screen offers under the game, from left to right."""
    percent: int = 100
    """Speed to begin with, of the game's own."""


CONTROLS: dict[str, Controls] = {
    "ALE/Breakout-v5": Controls(
        "The left and right arrow keys move the paddle, space fires.",
        "Fire serves every new ball.",
        ("left", "fire", "right"),
    ),
    "ALE/Pong-v5": Controls(
        "The up and down arrow keys move your paddle, space fires.",
        "Yours is the green one on the right. Fire as it hits the ball: the ball flies twice as fast.",
        ("up", "fire", "down"),
    ),
    "ALE/SpaceInvaders-v5": Controls(
        "The left and right arrow keys move the cannon, space fires.",
        "You can move and fire at the same time.",
        ("left", "fire", "right"),
    ),
    "CartPole-v1": Controls(
        "The left and right arrow keys push the cart.",
        "The cart is always being pushed: first to the left, then in the direction that you pressed last. "
        "At full speed the pole falls faster than most people react.",
        ("left", "right"),
        percent=50,
    ),
}
"""The games that people can play, the first one first."""


class Gamepad:
    """Chooses a step's action from what is held and from what was pressed since the step before, however briefly."""

    def __init__(self, actions: list[str]) -> None:
        self._actions = actions
        self._held: list[str] = []
        self._tapped: list[str] = []
        self._late: list[str] = []
        self._latest = 0

    def hold(self, words: list[str]) -> None:
        """From now on these are held, the latest last."""
        self._tapped += [word for word in words if word not in self._held]
        self._held = words

    @property
    def handed_back(self) -> bool:
        """Whether the agent has the controls."""
        return AGENT in self._held

    def tap_late(self, words: list[str]) -> None:
        """These were pressed and are not held any more; what was pressed after them goes before them."""
        self._late += words

    def action(self) -> int:
        """The number of the next step's action; where nothing is held it is to wait, else to go on as before."""
        words, self._late, self._tapped = self._late + self._held + self._tapped, [], []
        directions = [word for word in reversed(words) if word != "fire"]
        both = [f"{word}, fire" for word in directions[:1] if "fire" in words]
        fitting = [name for name in [*both, *reversed(words), "wait"] if name in self._actions]
        if fitting:
            self._latest = self._actions.index(fitting[0])
        return self._latest
