"""The settings of a training as the page's address names them: those that differ from the shipped ones."""

import dataclasses
from collections.abc import Mapping

from a3c_core.recipe import Recipe
from training.recipes import RECIPES
from ui.retrain.lessons import SHIPPED, taught
from ui.settings import SETTINGS, TRAINABLE, Setting

GAME = "game"


def is_named(asked: Mapping[str, str]) -> bool:
    """Whether an address names a game or any settings of this tab."""
    return asked.get("tab") == "retrain" and not asked.keys().isdisjoint({GAME, *(each.field for each in SETTINGS)})


def named_in(asked: Mapping[str, str]) -> tuple[str, Recipe]:
    """The game's name and the recipe that an address names. Raises gr.Error, with a sentence, for a setting that can't
    be."""
    name, recipe = taught(SHIPPED, asked.get(GAME))
    values = {
        each.field: each.checked(_number(asked[each.field]) if isinstance(each, Setting) else asked[each.field])
        for each in SETTINGS
        if each.field in asked
    }
    return name, dataclasses.replace(recipe, **values)


def shipped() -> dict[str, dict[str, float | str]]:
    """The settings of each game's shipped recipe, by their names in an address."""
    return {name: {each.field: each.of(RECIPES[name]) for each in SETTINGS} for name in TRAINABLE}


def _number(text: str) -> float | str:
    """The number that a text is, or the text, which no setting takes."""
    try:
        return float(text)
    except ValueError:
        return text
