"""What a training shows in curves: the return, beside earlier trainings', and the numbers of its updates."""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import zoo
from a3c_core.recipe import Recipe
from training.log import Progress
from ui.figures import Goal, Line, curve, number, precise
from ui.retrain.history import known
from ui.settings import differences

POINTS, VITAL_POINTS = 300, 100
"""Of the curve of the return, and of each small one: they are drawn anew several times a second."""


class Vital(NamedTuple):
    """A number of Progress that is drawn small."""

    field: str
    label: str


VITALS = (
    Vital("policy_loss", "Policy loss"),
    Vital("value_loss", "Value loss"),
    Vital("entropy", "Entropy"),
    Vital("gradient_norm", "Gradient norm"),
    Vital("staleness", "Staleness"),
    Vital("steps_per_second", "Steps a second"),
)


def learning_curve(recipe: Recipe, moments: Sequence[Progress] | None = None, earlier: Sequence[Line] = ()) -> str:
    """Mean return of the last 100 training games against steps, beside what the zoo's agent scores.

    None is a training that has not been asked for.
    """
    x, y = known(moments or (), "mean_return", POINTS)
    longest = max([recipe.steps, *(line.x[-1] for line in earlier)])
    return curve(
        x,
        y,
        label="Mean return of the last 100 games",
        game=recipe.env,
        ends=("0", f"{longest:,.0f} steps"),
        x_high=longest,
        goal=goal_of(recipe.env),
        marks=5,
        empty="Press Train and watch it learn." if moments is None else "",
        beside=earlier,
        name=f"this training: {differences(recipe)}",
    )


def vital_curves(recipe: Recipe, moments: Sequence[Progress]) -> str:
    """The numbers of the updates against steps, one small curve each; nothing where there are none yet."""
    sound = [moment for moment in moments if moment.updates and _is_finite(moment)]
    if not sound:
        return ""
    return "".join(
        curve(
            *known(sound, vital.field, VITAL_POINTS),
            label=vital.label,
            game=recipe.env,
            ends=("", ""),
            x_high=recipe.steps,
            words=precise,
        )
        for vital in VITALS
    )


def _is_finite(moment: Progress) -> bool:
    """Whether all the numbers that are drawn can be."""
    return all(math.isfinite(getattr(moment, vital.field) or 0.0) for vital in VITALS)


@cache
def goal_of(env: str) -> Goal | None:
    """What the zoo's agent scores in that environment."""
    scores = [entry.score.mean for entry in zoo.entries().values() if entry.recipe.env == env]
    return Goal(max(scores), f"the zoo's agent: {number(max(scores))}") if scores else None
