"""The environments that agents live in: those that Gymnasium and ale-py ship, and those that the user registers.

An id that a checkpoint names is looked up in a table and never imported: `register_env` alone adds to it.
"""

import difflib
import importlib
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache, lru_cache, partial
from typing import Any, Literal, NamedTuple, get_args

import gymnasium as gym
import numpy as np
from gymnasium.core import ActType, ObsType, RenderFrame
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import vector as vector_wrappers

from a3c_core.recipe import Recipe
from a3c_core.spaces import UNIT, adapted

Protocol = Literal["classic", "sticky"]
"""How games are scored. It makes a difference for Atari alone: classic has no sticky actions, sticky repeats an action
with probability 0.25, frame by frame (Machado et al. 2018). Both begin with up to 30 no-ops, end when the last life is
lost, when nothing is left to win, or after 108,000 frames, and count the true score, whatever the agent was trained
with."""

STICKY_ACTIONS: dict[Protocol, float] = {"classic": 0.0, "sticky": 0.25}


class UnknownEnv(ValueError):
    """Neither Gymnasium nor ale-py ships the environment, and nobody registered it."""


class CannotMake(ValueError):
    """The environment can't be made or shown here; the message says what it lacks."""


class Spaces(NamedTuple):
    """What one environment shows and takes."""

    observation: Space
    action: Space


class SameStepCartPole(CartPoleVectorEnv):
    """Gymnasium's batched CartPole, but a finished episode starts anew within the same step.

    Its own NEXT_STEP autoreset would put a fake transition (action ignored, reward 0) after each episode.
    """

    metadata = CartPoleVectorEnv.metadata | {"autoreset_mode": AutoresetMode.SAME_STEP}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        done = self.prev_done
        if done.any():
            info = {"final_obs": obs, "_final_obs": done}
            self.state[:, done] = self.np_random.uniform(self.low, self.high, size=(4, done.sum()))
            self.steps[done] = 0
            self.prev_done = np.zeros_like(done)
            obs = self.state.T.astype(np.float32)
        return obs, reward, terminated, truncated, info


class Remade(gym.Wrapper):
    """An environment that is made anew for every episode.

    Box2D's world keeps an order of contacts from one episode to the next, so the seed alone would not determine the
    game of an environment that keeps its world.
    """

    def __init__(self, make: Callable[[], gym.Env]) -> None:
        super().__init__(make())
        self._make = make

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        generator = self.env.unwrapped.np_random
        self.env.close()
        self.env = self._make()
        self.env.unwrapped.np_random = generator
        return self.env.reset(seed=seed, options=options)


class RoundedCartPole(gym.Wrapper):
    """CartPole that goes on from exactly what it showed: its state is rounded to float32 after each step.

    The sines of two processors, or of a browser, differ in the last digit. CartPole is chaotic: without rounding they
    make another game of one seed within 400 steps.
    """

    def step(self, action: ActType) -> tuple[ObsType, float, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        self.unwrapped.state = obs.astype(np.float64)
        return obs, *rest


class EnvFactory(NamedTuple):
    """How to make the environments of one family."""

    training: Callable[[Recipe, int], VectorEnv]
    """A batch for one worker, which has one thread."""
    scoring: Callable[[Recipe, int, Protocol], VectorEnv]
    """A batch whose reset takes a list of seeds, one per environment."""
    single: Callable[[Recipe, str | None, Protocol], gym.Env]
    """One environment, with a render mode."""


REMADE = ("BipedalWalker-v3", "BipedalWalkerHardcore-v3")
"""Environments that keep their Box2D world; LunarLander and CarRacing do not."""


def _made(env: str, render_mode: str | None = None) -> gym.Env:
    make = partial(gym.make, env, render_mode=render_mode)
    try:
        game = Remade(make) if env in REMADE else make()
        return RoundedCartPole(game) if env == "CartPole-v1" else game
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise _lacking(env, error) from None


def _lacking(env: str, error: Exception) -> CannotMake:
    return CannotMake(f"{env} needs a package that is not installed: {' '.join(str(error).split())}")


class Rendered(gym.Wrapper):
    """An environment to watch. Gymnasium imports what draws it, pygame for instance, at its first picture only.

    Raises CannotMake where that is not installed.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        with self._explained():
            return super().reset(seed=seed, options=options)

    def step(self, action: ActType) -> tuple[ObsType, float, bool, bool, dict[str, Any]]:
        with self._explained():
            return super().step(action)

    def render(self) -> RenderFrame | list[RenderFrame] | None:
        with self._explained():
            return super().render()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except gym.error.DependencyNotInstalled as error:
            raise _lacking(self.spec.id, error) from None


@cache
def _render_modes(env: str) -> list[str]:
    with closing(_made(env)) as game:
        return game.metadata.get("render_modes", [])


def _single(recipe: Recipe, render_mode: str | None, protocol: Protocol) -> gym.Env:
    if protocol != "classic":
        raise ValueError(f"{recipe.env} knows the classic protocol only: sticky actions exist for Atari alone")
    if render_mode and not {"rgb_array", render_mode} & set(_render_modes(recipe.env)):
        raise CannotMake(f"{recipe.env} can't be shown: it does not have the render mode rgb_array")
    made = _made(recipe.env, render_mode)
    return adapted(Rendered(made) if render_mode else made)


def _scoring(recipe: Recipe, count: int, protocol: Protocol) -> VectorEnv:
    return SyncVectorEnv([lambda: _single(recipe, None, protocol)] * count, autoreset_mode=AutoresetMode.SAME_STEP)


def _training(recipe: Recipe, count: int) -> VectorEnv:
    return _scoring(recipe, count, "classic")


def _cartpoles(recipe: Recipe, count: int) -> VectorEnv:
    return SameStepCartPole(count, max_episode_steps=gym.spec(recipe.env).max_episode_steps)


def _pendulums(recipe: Recipe, count: int) -> VectorEnv:
    plain = SyncVectorEnv([lambda: gym.make(recipe.env)] * count, autoreset_mode=AutoresetMode.SAME_STEP)
    return vector_wrappers.ClipAction(vector_wrappers.RescaleAction(plain, *UNIT))


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _atari(recipe: Recipe, count: int, *, sticky: float, threads: int) -> VectorEnv:
    from a3c_core.atari import AtariGames  # ale-py is optional

    return AtariGames(
        recipe.env,
        count,
        sticky=sticky,
        full_action_space=recipe.full_action_space,
        stall=recipe.stall_earns_nothing,
        threads=threads,
    )


def _atari_game(recipe: Recipe, render_mode: str | None, protocol: Protocol) -> gym.Env:
    from a3c_core.atari import make_game

    sticky = STICKY_ACTIONS[protocol]
    return make_game(
        recipe.env,
        sticky=sticky,
        full_action_space=recipe.full_action_space,
        stall=recipe.stall_earns_nothing,
        render_mode=render_mode,
    )


ATARI = EnvFactory(
    training=lambda recipe, count: _atari(
        recipe, count, sticky=recipe.sticky_actions[0], threads=max(1, _cores() // recipe.workers)
    ),
    scoring=lambda recipe, count, protocol: _atari(recipe, count, sticky=STICKY_ACTIONS[protocol], threads=_cores()),
    single=_atari_game,
)
GYMNASIUM = EnvFactory(_training, _scoring, _single)
"""Of every environment without a factory of its own."""

ENVS: dict[str, EnvFactory] = {
    "CartPole-v1": EnvFactory(_cartpoles, _scoring, _single),
    "Pendulum-v1": EnvFactory(_pendulums, _scoring, _single),
}
"""Environments of Gymnasium that are made in a faster way for training."""


class Registration(NamedTuple):
    """An environment of the user's own, as worker processes need it too."""

    spec: EnvSpec
    module: str | None
    """What to import, so that Gymnasium knows it."""
    training: Callable[[Recipe, int], VectorEnv] | None
    """Makes a batch for training; None where Gymnasium makes one."""


REGISTERED: dict[str, Registration] = {}
"""The environments that the user registered in this process, by their ids."""


def register_env(env: str, factory: Callable[[Recipe, int], VectorEnv] | None = None) -> str:
    """Lets agents be trained, loaded and watched in an environment of your own; returns its id in recipes.

        gymnasium.register("Corridor-v0", entry_point="corridor:Corridor", max_episode_steps=100)
        register_env("Corridor-v0")    # or "corridor:Corridor-v0", which imports the module first

    Args:
        env: id that Gymnasium knows, or module:id, as `gymnasium.make` takes it.
        factory: makes `count` environments as one batch for training, `(recipe, count) -> VectorEnv`, with SAME_STEP
            autoreset and the spaces of `a3c_core.spaces`; by default Gymnasium's SyncVectorEnv.

    Raises UnknownEnv where Gymnasium does not know the id, and ValueError where the factory or the environment can't be
    pickled for worker processes.
    """
    module, _, plain = env.rpartition(":")
    if module:
        imported(module)
    if plain not in gym.registry:
        raise UnknownEnv(f"Gymnasium does not know {plain!r}: register it first, with gymnasium.register")
    registration = Registration(gym.registry[plain], module or None, factory)
    check_picklable(registration, f"the environment {plain!r} or its factory")
    REGISTERED[plain] = registration
    spaces_of.cache_clear()
    _render_modes.cache_clear()
    return plain


def register_module(module: str) -> None:
    """Imports a module of the user's own and registers the environments that its package defines, and those of
    Gymnasium's classes that it adds under ids of its own.

    What other packages add to Gymnasium while the module imports them is not registered. For an environment whose class
    is another package's, `module` is module:id. Raises ValueError where it can't be imported.
    """
    if ":" in module:
        register_env(module)
        return
    before = set(gym.registry)
    imported(module)
    package = module.split(".")[0]
    for env, spec in list(gym.registry.items()):
        origin = _package_of(spec)
        if env not in REGISTERED and (origin == package or (origin == "gymnasium" and env not in before)):
            register_env(f"{module}:{env}")


def _package_of(spec: EnvSpec) -> str:
    """The package that defines an environment's class or the function that makes it."""
    entry = spec.entry_point or spec.vector_entry_point
    name = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return name.split(":")[0].split(".")[0]


def qualified(env: str) -> str:
    """The id as a command takes it: module:id where a module of the user's own has to be imported first."""
    module = REGISTERED[env].module if env in REGISTERED else None
    return f"{module}:{env}" if module else env


def imported(module: str) -> None:
    """Imports a module that the user named, never one that a file named. Raises ValueError."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"cannot import {module!r} ({error}): run the command where Python finds it") from None
    except Exception as error:
        raise ValueError(f"importing {module!r} failed ({type(error).__name__}: {error}): mend that module") from None


def install(registration: Registration) -> None:
    """Makes an environment that another process registered known to this one, a worker."""
    gym.registry[registration.spec.id] = registration.spec
    REGISTERED[registration.spec.id] = registration


def check_picklable(thing: object, name: str) -> None:
    """Raises ValueError where worker processes could not be handed `thing`."""
    try:
        pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError):
        raise ValueError(
            f"{name} can't be handed to worker processes: define it at the top level of a module, not in a function"
        ) from None


def is_atari(env: str) -> bool:
    """Whether that environment is a game of the Arcade Learning Environment."""
    return env.startswith("ALE/")


def protocols_of(env: str) -> tuple[Protocol, ...]:
    """The protocols that an environment is scored by: both of Atari's for its games, else the one that all have."""
    return get_args(Protocol) if is_atari(env) else ("classic",)


def known(env: str) -> str:
    """`env` itself if Gymnasium or ale-py ships it or the user registered it; raises UnknownEnv otherwise.

    Imports nothing that `env` names.
    """
    if is_atari(env):
        try:
            from a3c_core.atari import rom_of
        except ModuleNotFoundError:
            raise UnknownEnv(f'{env!r} needs ale-py, which is not installed: pip install "a3c-arcade[atari]"') from None
        if rom_of(env):
            return env
    elif env in REGISTERED or _shipped(env):
        return env
    near = difflib.get_close_matches(env, [each for each in gym.registry if _shipped(each) or is_atari(each)])
    raise UnknownEnv(
        f"unknown environment {env!r}: "
        + (f"did you mean {' or '.join(near)}? " if near else "")
        + "Choose one that Gymnasium or ale-py ships, or import the module that registers your own "
        "(--import MODULE on the command line, a3c_core.envs.register_env in Python)"
    )


def _shipped(env: str) -> bool:
    """Whether Gymnasium itself ships the environment: a look-up alone, where gym.spec and gym.make would import."""
    spec = gym.registry.get(env)
    return spec is not None and isinstance(spec.entry_point, str) and spec.entry_point.startswith("gymnasium.envs.")


def _factory(env: str) -> EnvFactory:
    """How the environment is made. Raises UnknownEnv."""
    if is_atari(known(env)):
        return ATARI
    own = REGISTERED[env].training if env in REGISTERED else None
    return GYMNASIUM._replace(training=own) if own else ENVS.get(env, GYMNASIUM)


def make_envs(recipe: Recipe, count: int) -> VectorEnv:
    """`count` environments stepped as one batch, with SAME_STEP autoreset, for training.

    Continuous actions are in [-1, 1] (clipped, then scaled to the environment's range).
    Raises UnknownEnv.
    """
    return _factory(recipe.env).training(recipe, count)


def make_env(recipe: Recipe, render_mode: str | None = None, protocol: Protocol = "classic") -> gym.Env:
    """One environment for watching, with the actions that `make_envs` takes.

    Raises UnknownEnv, CannotMake where a package is missing or it can't be shown, UnsupportedSpace, and ValueError for
    a protocol that the environment does not know.
    """
    return _factory(recipe.env).single(recipe, render_mode, protocol)


def make_scoring_envs(recipe: Recipe, count: int, protocol: Protocol = "classic") -> VectorEnv:
    """`count` environments, each with a seed of its own at reset, so that an episode is determined by its seed.

    Raises UnknownEnv, and ValueError for a protocol that the environment does not know.
    """
    return _factory(recipe.env).scoring(recipe, count, protocol)


@lru_cache(maxsize=64)
def spaces_of(recipe: Recipe) -> Spaces:
    """Observation and action space of one environment. Raises UnknownEnv."""
    made = make_env(recipe)
    made.close()
    return Spaces(made.observation_space, made.action_space)


def final_observations(obs: np.ndarray, info: dict[str, Any]) -> np.ndarray:
    """What the step really led to, [B, ...]: the last observation where an episode ended, `obs` elsewhere.

    Gymnasium keeps it in info["final_obs"], as an object array with holes or as one dense array.
    """
    if "final_obs" not in info:
        return obs
    final, ended = obs.copy(), info["_final_obs"]
    final[ended] = np.stack(info["final_obs"][ended])
    return final


FIRST_TRAINING_SEED = 10**9
"""Training seeds its environments from here on; seeds below are for scoring. In Atari's classic protocol games
differ by up to 30 no-ops alone, so training has seen their beginnings all the same."""


def training_seed(recipe: Recipe, rank: int, first_step: int = 0) -> int:
    """First of the seeds, one per environment, of worker `rank`; below 2**31, as emulators want them.

    A run that is resumed at `first_step` sees other games than those that it began with.
    """
    return FIRST_TRAINING_SEED + (recipe.seed * 1_000_003 + rank * 4099 + first_step * 7919) % FIRST_TRAINING_SEED
