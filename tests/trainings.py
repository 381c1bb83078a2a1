"""Trainings on the page, as tests ask for them."""

from training.recipes import RECIPES
from ui.settings import SETTINGS


def settings(**changes: object) -> list[object]:
    """A value for each setting: CartPole's, with one small worker, and `changes`."""
    small = {"workers": 1, "envs_per_worker": 4}
    return [(small | changes).get(setting.field, setting.of(RECIPES["cartpole"])) for setting in SETTINGS]
