"""Where the training of an environment begins that no recipe ships for: numbers by the kind of its spaces."""

from dataclasses import replace
from typing import Any, NamedTuple

from gymnasium.spaces import Box

from a3c_core.envs import Spaces, is_atari, spaces_of
from a3c_core.model import fitting_encoders
from a3c_core.recipe import Recipe
from training.recipes import ATARI, FRAME_PASSES, PASSES, RECIPES, recipes_of


class Kind(NamedTuple):
    """What an environment shows and takes, as far as its default numbers depend on it."""

    frames: bool
    """Whether it shows frames; else it shows a vector."""
    continuous: bool
    """Whether it takes real numbers; else it takes choices."""


ATARI_GAME = ATARI | FRAME_PASSES | {"steps": 20_000_000, "life_loss_ends_return": True}
"""Of Atari's games without a recipe of their own."""
FRAMES = FRAME_PASSES | {"steps": 5_000_000, "layer_norm": True, "head_layers": (), "normalize_rewards": True}
DEFAULTS: dict[Kind, dict[str, Any]] = {
    Kind(frames=False, continuous=False): PASSES | {"steps": 1_000_000, "learning_rate": 1e-3},
    Kind(frames=False, continuous=True): PASSES | {"steps": 2_000_000, "learning_rate": 3e-4, "entropy_cost": 0.0},
    Kind(frames=True, continuous=False): FRAMES,
    Kind(frames=True, continuous=True): FRAMES | {"learning_rate": 3e-4, "entropy_cost": 0.0},
}
"""The numbers that an environment begins with; its encoder is the first that reads what it shows."""


def kind_of(spaces: Spaces) -> Kind:
    """The line of DEFAULTS for such spaces."""
    return Kind(frames=len(spaces.observation.shape) == 3, continuous=isinstance(spaces.action, Box))


def recipe_for(env: str) -> Recipe:
    """The recipe that ships for an environment, or the default one for spaces like its.

    Raises UnknownEnv, CannotMake, UnsupportedSpace; ValueError where no built-in encoder reads what it shows.
    """
    if shipped := recipes_of(env):
        return RECIPES[shipped[0]]
    if is_atari(env):
        recipe = Recipe(env=env, **ATARI_GAME)
        spaces_of(recipe)  # raises for a game that there is not
        return recipe
    spaces = spaces_of(Recipe(env=env))
    encoders = fitting_encoders(spaces.observation)
    return replace(Recipe(env=env, **DEFAULTS[kind_of(spaces)]), encoder=encoders[0] if encoders else "vector")
