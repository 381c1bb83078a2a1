"""The trainings of a visit that are over: their curves stay in the figure, to compare the next one with."""

from collections.abc import Sequence
from typing import NamedTuple

from a3c_core.recipe import Recipe
from training.log import Progress
from ui.figures import Line, thinned
from ui.settings import differences

MOST_LINES = 5
"""Earlier trainings of one game in the figure."""
POINTS = 100
"""Of an earlier training's curve."""


class PastTraining(NamedTuple):
    """A training that is over: numbers alone, so that nothing has to be tidied away."""

    run_id: str
    env: str
    line: Line


def known(moments: Sequence[Progress], field: str, most: int) -> tuple[list[float], list[float]]:
    """Steps and numbers of those moments that know the field, `most` of them at most."""
    told = thinned([moment for moment in moments if getattr(moment, field) is not None], most)
    return [moment.steps for moment in told], [getattr(moment, field) for moment in told]


def with_run(
    earlier: Sequence[PastTraining], run_id: str, recipe: Recipe, moments: Sequence[Progress]
) -> list[PastTraining]:
    """The trainings of the visit, this one now among them; of each game the newest."""
    x, y = known(moments, "mean_return", POINTS)
    if not y:
        return list(earlier)
    added = [*earlier, PastTraining(run_id, recipe.env, Line(x, y, differences(recipe)))]
    same = [each for each in added if each.env == recipe.env]
    too_many = same[: -MOST_LINES - 1]  # one more than is drawn thin: the newest is the one in colour
    return [each for each in added if each not in too_many]


def lines(earlier: Sequence[PastTraining], env: str) -> list[Line]:
    """The curves of one game, the newest of them, oldest first."""
    return [each.line for each in earlier if each.env == env][-MOST_LINES:]
