"""Presets that show a lesson: a recipe, and what to look for in the curves. training/NOTES.md has the numbers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from a3c_core.recipe import Recipe
from training.recipes import RECIPES
from ui.settings import TRAINABLE, refusal


class Lesson(NamedTuple):
    """Settings that differ from a shipped recipe's, to show what they do."""

    name: str
    says: str
    """What to look for, in a sentence."""
    changes: Mapping[str, Any]
    game: str | None = "cartpole"
    """The shipped recipe that is changed; None is that of the game which is chosen."""


LESSONS = (
    Lesson(
        "As shipped",
        "The recipe of the zoo's agent: the return climbs to the dashed line, while the entropy falls slowly.",
        {},
        game=None,
    ),
    Lesson(
        "Rate too high",
        "The entropy is zero at once: the agent is sure of itself before it has learnt anything, and the return "
        "stays flat.",
        {"learning_rate": 0.1},
    ),
    Lesson(
        "No entropy",
        "At a learning rate of 0.01 without an entropy bonus the entropy falls early, and the return stays low for "
        "long: after 70 % of their steps two of ten trainings were at the dashed line; with a bonus of 0.03, seven.",
        {"learning_rate": 0.01, "entropy_cost": 0.0},
    ),
    Lesson(
        "Too much entropy",
        "The entropy bonus outweighs the rewards: the entropy stays near 0.69, that of a coin toss, and the return "
        "stays low.",
        {"entropy_cost": 1.0},
    ),
    Lesson(
        "One worker",
        "This is A2C: the staleness is zero, so the return needs fewer steps to climb; but on idle cores it makes "
        "fewer steps a second.",
        {"workers": 1},
    ),
    Lesson(
        "Stale gradients",
        "With four workers a gradient is three updates old, as the staleness shows. At a learning rate of 0.006 two of "
        "six trainings were at the dashed line after 70 % of their steps; with one worker, all six were after 50 %.",
        {"workers": 4, "learning_rate": 0.006},
    ),
)
SHIPPED = LESSONS[0]


def lesson_of(name: object) -> Lesson:
    """The lesson of that name. Raises gr.Error, with a sentence, for one that is not on offer."""
    found = [lesson for lesson in LESSONS if lesson.name == name]
    if not found:
        raise refusal(f"Choose one of these: {', '.join(lesson.name for lesson in LESSONS)}.")
    return found[0]


def taught(lesson: Lesson, game: object) -> tuple[str, Recipe]:
    """The name of the game that a lesson is given on, and its recipe; `game` is the one that is chosen."""
    chosen = game if isinstance(game, str) and game in TRAINABLE else TRAINABLE[0]
    name = lesson.game or chosen
    return name, replace(RECIPES[name], **lesson.changes)
