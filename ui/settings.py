"""What a visitor may set for a training, within which bounds, and the recipe that comes of it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gradio as gr

from a3c_core.recipe import Recipe
from training.recipes import RECIPES
from ui.games import game_of
from ui.gradio_internals import taking_anything

TRAINABLE = ("cartpole", "pendulum")
"""Recipes that learn within minutes on a small machine."""


def choice(options: list[Any], *, label: str, info: str | None = None, value: object = None, **marks: str) -> gr.Radio:
    """A radio button, `value` or the first option chosen, that hands any value on: handlers answer an unknown one.

    `marks` are its elem_id or elem_classes.
    """
    first = options[0]
    chosen = value or (first[1] if isinstance(first, tuple) else first)
    radio = gr.Radio(options, value=chosen, label=label, info=info, **marks)
    taking_anything(radio)
    return radio


class Setting(NamedTuple):
    """A number of the recipe that visitors may change."""

    field: str
    label: str
    low: float
    high: float
    whole: bool
    info: str

    def of(self, recipe: Recipe) -> float:
        """The setting's number in `recipe`."""
        value = getattr(recipe, self.field)
        return value[0] if isinstance(value, tuple) else value

    def checked(self, value: object) -> int | float | tuple[int, ...]:
        """`value` as the recipe wants it. Raises gr.Error, with a sentence, for anything else."""
        number = (whole if self.whole else decimal)(value, self.label, self.low, self.high)
        return (number,) if self.field == "n_steps" else number

    def words(self, recipe: Recipe) -> str:
        """The setting in `recipe`, for a legend."""
        value = self.of(recipe)
        return f"{self.label.lower()} {f'{value:,}' if self.whole else f'{value:g}'}"


class Choice(NamedTuple):
    """A part of the recipe of which visitors may choose one of a few."""

    field: str
    label: str
    options: Mapping[str, Any]
    info: str

    def of(self, recipe: Recipe) -> str:
        """What is chosen in `recipe`."""
        value = getattr(recipe, self.field)
        return next(name for name, option in self.options.items() if option == value)

    def checked(self, value: object) -> Any:  # noqa: ANN401
        """The option of that name. Raises gr.Error, with a sentence, for anything else."""
        if not (isinstance(value, str) and value in self.options):
            raise refusal(f"{self.label} must be one of these: {', '.join(self.options)}.")
        return self.options[value]

    def words(self, recipe: Recipe) -> str:
        """The choice in `recipe`, for a legend."""
        return f"{self.label.lower()} {self.of(recipe)}"


NUMBERS = (
    Setting("steps", "Steps", 1_000, 5_000_000, True, "One step is one decision in one game."),
    Setting("learning_rate", "Learning rate", 1e-6, 1.0, False, "How far each update moves the network."),
    Setting("workers", "Workers", 1, 4, True, "Processes that learn side by side: one is A2C, several are A3C."),
    Setting("envs_per_worker", "Games per worker", 1, 32, True, "Played at once by each worker."),
    Setting("n_steps", "Steps between updates", 1, 128, True, "In each game."),
    Setting("gamma", "Discount", 0.0, 1.0, False, "Gamma: what a reward of 1 is worth one step earlier."),
    Setting("gae_lambda", "Lambda", 0.0, 1.0, False, "Of GAE: how far back rewards are credited; 1 is all the way."),
    Setting("entropy_cost", "Entropy bonus", 0.0, 1.0, False, "Higher explores longer."),
    Setting("seed", "Seed", 0, 999_999_999, True, "For the first weights, the games and the sampled actions."),
)
NETWORK = Choice(
    "head_layers",
    "Hidden units",
    {"32": (32,), "64 + 64": (64, 64), "128 + 128": (128, 128)},
    "In one or two layers, separate for policy and value.",
)
SETTINGS: tuple[Setting | Choice, ...] = (*NUMBERS, NETWORK)
"""In the order in which handlers take them."""
VISIBLE = 2
"""The first settings are always in view, the others fold away."""


def choices() -> list[tuple[str, str]]:
    """The games on offer, as a radio button wants them."""
    return [(game_of(RECIPES[name].env).name, name) for name in TRAINABLE]


def name_of(recipe: Recipe) -> str:
    """The name of the shipped recipe that `recipe` was made from."""
    return next(name for name in TRAINABLE if RECIPES[name].env == recipe.env)


def recipe_of(name: object, values: tuple[object, ...]) -> Recipe:
    """The shipped recipe `name` with `values`, one per setting. Raises gr.Error, with a sentence."""
    if not (isinstance(name, str) and name in TRAINABLE):
        raise refusal(f"Choose a game: {' or '.join(TRAINABLE)}.")
    if len(values) != len(SETTINGS):
        raise refusal(f"A training needs {len(SETTINGS)} settings: {', '.join(each.label for each in SETTINGS)}.")
    changes = {setting.field: setting.checked(value) for setting, value in zip(SETTINGS, values, strict=True)}
    return dataclasses.replace(RECIPES[name], **changes)


def differences(recipe: Recipe) -> str:
    """What was set otherwise than in the shipped recipe, in words."""
    shipped = RECIPES[name_of(recipe)]
    return ", ".join(each.words(recipe) for each in SETTINGS if each.of(recipe) != each.of(shipped)) or "as shipped"


def refusal(sentence: str) -> gr.Error:
    """What to raise where a visitor asks for what cannot be: the page shows the sentence, the log no stack trace."""
    return gr.Error(sentence, print_exception=False)


def whole(value: object, label: str, low: float, high: float) -> int:
    """`value` as a whole number between `low` and `high`. Raises gr.Error, with a sentence."""
    if not (_number(value) and float(value).is_integer() and low <= value <= high):
        raise refusal(f"{label} must be a whole number from {low:,.0f} to {high:,.0f}.")
    return int(value)


def decimal(value: object, label: str, low: float, high: float) -> float:
    """`value` as a number between `low` and `high`. Raises gr.Error, with a sentence."""
    if not (_number(value) and low <= value <= high):
        raise refusal(f"{label} must be a number from {low:g} to {high:g}.")
    return float(value)


def _number(value: object) -> bool:
    """Whether `value` is a number, and a finite one that fits a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e15 and math.isfinite(value)
