"""Takeovers in an address: `412.d2a12-640.c8` is action 3 twice and action 0 twelve times from step 412 on, by hand,
then the agent again, and action 2 eight times from step 640 on. Each letter is an action, a number says how often."""

import re
from itertools import groupby, pairwise

from gymnasium.spaces import Discrete

from a3c_core.envs import spaces_of
from a3c_core.recipe import Recipe
from playback.takeover import Takeover
from ui.play.controls import CONTROLS

MOST_LETTERS = 4000
"""Addresses that are twice as long are cut off here and there."""
FIRST_ACTION = ord("a")
TAKEOVER = re.compile(r"(0|[1-9][0-9]{0,5})\.((?:[a-z](?:[1-9][0-9]{0,5})?)+)", re.ASCII)
RUN = re.compile(r"([a-z])([0-9]*)")


def takeovers_of(text: str, recipe: Recipe, most_steps: int) -> tuple[Takeover, ...]:
    """The takeovers that an address names. Each game has one spelling. Raises ValueError, with a sentence."""
    if not text:
        return ()
    if len(text) > MOST_LETTERS:
        raise ValueError(
            f"This game has too many changes of keys for a link: its takeovers take more than {MOST_LETTERS:,} letters."
        )
    action = spaces_of(recipe).action
    if recipe.env not in CONTROLS or not isinstance(action, Discrete):
        raise ValueError(f"{recipe.env} cannot be taken over: nobody plays it by hand.")
    read = [TAKEOVER.fullmatch(part) for part in text.split("-")]
    if not all(read):
        raise ValueError("Takeovers are steps and the actions from there, as in 412.b3a12-640.c8.")
    takeovers = tuple(_takeover(int(found[1]), found[2], int(action.n), most_steps) for found in read)
    if any(later.step <= earlier.end for earlier, later in pairwise(takeovers)):
        raise ValueError("Takeovers come in the order of their steps, and between two of them the agent plays.")
    return takeovers


def _takeover(step: int, text: str, actions: int, most_steps: int) -> Takeover:
    runs = [(ord(letter) - FIRST_ACTION, count) for letter, count in RUN.findall(text)]
    if any(number >= actions for number, _ in runs):
        raise ValueError(f"The actions of this game are the letters a to {chr(FIRST_ACTION + actions - 1)}.")
    if any(count == "1" for _, count in runs) or any(one == other for (one, _), (other, _) in pairwise(runs)):
        raise ValueError("An action that is taken several times in a row is written once, with how often: b3, not bbb.")
    lengths = [int(count or 1) for _, count in runs]
    if step + sum(lengths) > most_steps:
        raise ValueError(f"A takeover ends before step {most_steps:,}.")
    return Takeover(step, b"".join(bytes([number]) * length for (number, _), length in zip(runs, lengths, strict=True)))


def written(takeovers: tuple[Takeover, ...]) -> str:
    """Takeovers as an address has them; nothing where there are none."""
    return "-".join(f"{step}.{''.join(_runs(actions))}" for step, actions in takeovers)


def _runs(actions: bytes) -> list[str]:
    counted = ((action, len(list(run))) for action, run in groupby(actions))
    return [f"{chr(FIRST_ACTION + action)}{count if count > 1 else ''}" for action, count in counted]
