"""The environments that agents live in. Names come from ENVS alone, never from a stranger's string."""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import ClipAction, RescaleAction
from gymnasium.wrappers import vector as vector_wrappers

from a3c_core.atari import ROMS, AtariGames, make_game
from a3c_core.recipe import Recipe

Protocol = Literal["classic", "sticky"]
"""How games are scored. It makes a difference for Atari alone: classic has no sticky actions, sticky repeats an action
with probability 0.25, frame by frame (Machado et al. 2018). Both begin with up to 30 no-ops, end when the last life is
lost or after 108,000 frames, and count the true score, whatever the agent was trained with."""

UNIT = np.float32(-1), np.float32(1)
"""Bounds of every continuous action, which is clipped to them and scaled to the environment's own."""

STICKY_ACTIONS: dict[Protocol, float] = {"classic": 0.0, "sticky": 0.25}


class UnknownEnv(ValueError):
    """The environment is not one of ENVS."""


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


class EnvFactory(NamedTuple):
    """How to make the environments of one family."""

    training: Callable[[Recipe, int], VectorEnv]
    """A batch for one worker, which has one thread."""
    scoring: Callable[[Recipe, int, Protocol], VectorEnv]
    """A batch whose reset takes a list of seeds, one per environment."""
    single: Callable[[Recipe, str | None, Protocol], gym.Env]
    """One environment, with a render mode."""


def _single(recipe: Recipe, render_mode: str | None, protocol: Protocol) -> gym.Env:
    if protocol != "classic":
        raise ValueError(f"{recipe.env} knows the classic protocol only: sticky actions are a matter of Atari")
    env = gym.make(recipe.env, render_mode=render_mode)
    return ClipAction(RescaleAction(env, *UNIT)) if isinstance(env.action_space, Box) else env


def _scoring(recipe: Recipe, count: int, protocol: Protocol) -> VectorEnv:
    return SyncVectorEnv([lambda: _single(recipe, None, protocol)] * count, autoreset_mode=AutoresetMode.SAME_STEP)


def _cartpoles(recipe: Recipe, count: int) -> VectorEnv:
    return SameStepCartPole(count, max_episode_steps=gym.spec(recipe.env).max_episode_steps)


def _pendulums(recipe: Recipe, count: int) -> VectorEnv:
    plain = SyncVectorEnv([lambda: gym.make(recipe.env)] * count, autoreset_mode=AutoresetMode.SAME_STEP)
    return vector_wrappers.ClipAction(vector_wrappers.RescaleAction(plain, *UNIT))


def _atari(recipe: Recipe, count: int, *, sticky: float, threads: int) -> VectorEnv:
    return AtariGames(recipe.env, count, sticky=sticky, full_action_space=recipe.full_action_space, threads=threads)


ATARI = EnvFactory(
    training=lambda recipe, count: _atari(recipe, count, sticky=recipe.sticky_actions, threads=1),
    scoring=lambda recipe, count, protocol: _atari(
        recipe, count, sticky=STICKY_ACTIONS[protocol], threads=os.cpu_count() or 1
    ),
    single=lambda recipe, render_mode, protocol: make_game(
        recipe.env,
        sticky=STICKY_ACTIONS[protocol],
        full_action_space=recipe.full_action_space,
        render_mode=render_mode,
    ),
)

ENVS: dict[str, EnvFactory] = {
    "CartPole-v1": EnvFactory(_cartpoles, _scoring, _single),
    "Pendulum-v1": EnvFactory(_pendulums, _scoring, _single),
    **dict.fromkeys(ROMS, ATARI),
}


def is_atari(env: str) -> bool:
    """Whether that environment is a game of the Arcade Learning Environment."""
    return env in ROMS


def known(env: str) -> str:
    """`env` itself if it is on the list; raises UnknownEnv otherwise."""
    if env not in ENVS:
        raise UnknownEnv(f"unknown environment {env!r}: choose one of {', '.join(ENVS)}")
    return env


def make_envs(recipe: Recipe, count: int) -> VectorEnv:
    """`count` environments stepped as one batch, with SAME_STEP autoreset, for training.

    Continuous actions are in [-1, 1] (clipped, then scaled to the environment's range).
    Raises UnknownEnv.
    """
    return ENVS[known(recipe.env)].training(recipe, count)


def make_env(recipe: Recipe, render_mode: str | None = None, protocol: Protocol = "classic") -> gym.Env:
    """One environment for watching, with the actions that `make_envs` takes.

    Raises UnknownEnv, and ValueError for a protocol that the environment does not know.
    """
    return ENVS[known(recipe.env)].single(recipe, render_mode, protocol)


def make_scoring_envs(recipe: Recipe, count: int, protocol: Protocol = "classic") -> VectorEnv:
    """`count` environments, each with a seed of its own at reset, so that an episode is determined by its seed.

    Raises UnknownEnv, and ValueError for a protocol that the environment does not know.
    """
    return ENVS[known(recipe.env)].scoring(recipe, count, protocol)


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
