"""The environments that agents live in. Names come from ENVS alone, never from a stranger's string."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import ClipAction, RescaleAction
from gymnasium.wrappers import vector as vector_wrappers

from a3c_core.recipe import Recipe


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


def _sync(env: str, count: int) -> VectorEnv:
    return SyncVectorEnv([lambda: gym.make(env)] * count, autoreset_mode=AutoresetMode.SAME_STEP)


def _cartpole(env: str, count: int) -> VectorEnv:
    return SameStepCartPole(count, max_episode_steps=gym.spec(env).max_episode_steps)


ENVS: dict[str, Callable[[str, int], VectorEnv]] = {"CartPole-v1": _cartpole, "Pendulum-v1": _sync}


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
    envs = ENVS[known(recipe.env)](recipe.env, count)
    if isinstance(envs.single_action_space, Box):
        envs = vector_wrappers.ClipAction(vector_wrappers.RescaleAction(envs, np.float32(-1), np.float32(1)))
    return envs


def make_env(recipe: Recipe, render_mode: str | None = None) -> gym.Env:
    """One environment for watching and scoring, with the actions that `make_envs` takes. Raises UnknownEnv."""
    env = gym.make(known(recipe.env), render_mode=render_mode)
    if isinstance(env.action_space, Box):
        env = ClipAction(RescaleAction(env, np.float32(-1), np.float32(1)))
    return env


def make_scoring_envs(recipe: Recipe, count: int) -> VectorEnv:
    """`count` environments, each with a seed of its own at reset, so that an episode is a matter of its seed."""
    return SyncVectorEnv([lambda: make_env(recipe)] * count, autoreset_mode=AutoresetMode.SAME_STEP)


@cache
def spaces_of(env: str) -> Spaces:
    """Observation and action space of one environment. Raises UnknownEnv."""
    made = gym.make(known(env))
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
"""Training seeds its environments from here on; seeds below are for scoring, so no score is on games seen before."""


def training_seed(recipe: Recipe, rank: int, first_step: int = 0) -> int:
    """First of the seeds, one per environment, of worker `rank`; below 2**31, as emulators want them.

    A run that is resumed at `first_step` sees other games than those that it began with.
    """
    return FIRST_TRAINING_SEED + (recipe.seed * 1_000_003 + rank * 4099 + first_step * 7919) % FIRST_TRAINING_SEED
