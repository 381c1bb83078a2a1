"""Takeovers: steps that somebody plays in the agent's place. A game with them repeats exactly."""

from collections.abc import Callable
from typing import NamedTuple


class Takeover(NamedTuple):
    """Steps in a row that a visitor played."""

    step: int
    """The first of them."""
    actions: bytes
    """The number of the action in each."""

    @property
    def end(self) -> int:
        """The first step after them."""
        return self.step + len(self.actions)


Hand = Callable[[int], int | None]
"""Asked before each step: the number of the action to take in the agent's place, or None where the agent plays."""


def replayed(takeovers: tuple[Takeover, ...]) -> Hand:
    """The hand that plays the same steps again."""
    return {takeover.step + i: action for takeover in takeovers for i, action in enumerate(takeover.actions)}.get


def until(takeovers: tuple[Takeover, ...], step: int) -> tuple[Takeover, ...]:
    """What was played by hand before a step."""
    begun = (takeover for takeover in takeovers if takeover.step < step)
    return tuple(takeover._replace(actions=takeover.actions[: step - takeover.step]) for takeover in begun)
