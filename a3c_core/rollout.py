"""Collecting experience: a Stepper steps a batch of environments and returns what it saw as a Rollout."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from a3c_core.envs import final_observations
from a3c_core.model import ActorCritic, Memory
from a3c_core.normalization import LARGEST_NORMALIZED, Moments
from a3c_core.recipe import Recipe


class Rollout(NamedTuple):
    """What one worker saw in T steps of B environments."""

    obs: Tensor
    """[T, B, ...] what the agent saw before each action."""
    reset: Tensor
    """[T, B] 1 where the observation is the first of an episode."""
    actions: Tensor
    """[T, B] int64, or [T, B, dimensions] float32."""
    rewards: Tensor
    """[T, B] the learner's reward; a truncated step already carries gamma * V(final observation)."""
    discounts: Tensor
    """[T, B] gamma, or 0 where an episode ended (or a life, if the recipe says so): no value flows over its end."""
    log_probs: Tensor
    """[T, B] log-probability of each action when it was taken."""
    values: Tensor
    """[T+1, B] V of each observation, and of the one where the rollout stopped, by the weights that acted."""
    memory: Memory
    """The core's memory before the first observation, each part [B, size]."""


class Stepper:
    """B environments on their way: current observations, memory, and the returns of the episodes under way."""

    def __init__(self, envs: VectorEnv, recipe: Recipe, model: ActorCritic, seed: int) -> None:
        self.envs, self.recipe = envs, recipe
        self.finished: list[float] = []
        """True returns of the episodes that ended in the latest rollout."""
        self.moments: list[Moments] = []
        """Of the latest rollout, for each of the normalizer's statistics in use (see `Normalizer.running`)."""
        self._device = next(model.parameters()).device
        self._obs, info = envs.reset(seed=seed)
        self._lives = info.get("lives", np.zeros(envs.num_envs))
        self._reset = np.ones(envs.num_envs, dtype=np.float32)
        self._memory = model.initial_memory(envs.num_envs)
        self._returns = np.zeros(envs.num_envs)
        self._discounted = np.zeros(envs.num_envs)

    @torch.no_grad()
    def rollout(
        self, model: ActorCritic, n_steps: int, recording: Callable[[], AbstractContextManager] = nullcontext
    ) -> Rollout:
        """Takes `n_steps` steps in each environment with actions drawn from `model`'s policy.

        The model is called within `recording()` where it chooses actions.
        """
        recipe, memory_before, unit = self.recipe, self._memory, model.normalizer.reward_unit
        obs, reset, actions, rewards, discounts, log_probs, values, running = ([] for _ in range(8))
        self.finished = []
        for _ in range(n_steps):
            obs.append(self._tensor(self._obs))
            reset.append(self._tensor(self._reset))
            with recording():
                policy, value, self._memory = model(obs[-1][None], reset[-1][None], self._memory)
            actions.append(policy.act()[0])
            log_probs.append(policy.log_prob(actions[-1][None])[0])
            values.append(value[0])
            self._obs, reward, terminated, truncated, info = self.envs.step(actions[-1].cpu().numpy())
            done = terminated | truncated
            learner_reward = learner_rewards(reward, recipe, unit)
            running.append(self._discount(reward, done))
            cut_short = truncated & ~terminated
            if cut_short.any():
                final = self._value_of(final_observations(self._obs, info), np.zeros_like(self._reset), model)
                learner_reward += recipe.gamma * cut_short * final.cpu().numpy()
            rewards.append(self._tensor(learner_reward))
            stops = done | self._lives_lost(info) if recipe.life_loss_ends_return else done
            discounts.append(self._tensor(np.where(stops, 0.0, recipe.gamma).astype(np.float32)))
            self._reset = done.astype(np.float32)
            self._count(reward, done)
        values.append(self._value_of(self._obs, self._reset, model))
        parts = (torch.stack(part) for part in (obs, reset, actions, rewards, discounts, log_probs, values))
        rollout = Rollout(*parts, memory=memory_before)
        self.moments = self._moments(rollout, np.concatenate(running))
        return rollout

    def _moments(self, rollout: Rollout, running: np.ndarray) -> list[Moments]:
        observations = [Moments.of(rollout.obs.flatten(0, 1).cpu())] if self.recipe.normalize_observations else []
        returns = [Moments.of(torch.from_numpy(running))] if self.recipe.normalize_rewards else []
        return observations + returns

    def _discount(self, reward: np.ndarray, done: np.ndarray) -> np.ndarray:
        """The discounted sum of the rewards so far in each episode, [B]: its deviation is the unit of rewards."""
        recipe = self.recipe
        self._discounted = recipe.gamma * self._discounted + scaled_rewards(reward, recipe)
        latest = self._discounted
        self._discounted = np.where(done, 0.0, latest)
        return latest

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _value_of(self, obs: np.ndarray, reset: np.ndarray, model: ActorCritic) -> Tensor:
        """V [B] of observations that follow the ones just acted on."""
        _, value, _ = model(self._tensor(obs)[None], self._tensor(reset)[None], self._memory)
        return value[0]

    def _lives_lost(self, info: dict[str, Any]) -> np.ndarray:
        """Bool [B]: where a life was lost in this step and the game went on; a new game has more lives."""
        before, self._lives = self._lives, info.get("lives", self._lives)
        return self._lives < before

    def _count(self, reward: np.ndarray, done: np.ndarray) -> None:
        self._returns += reward
        self.finished += self._returns[done].tolist()
        self._returns[done] = 0.0


def scaled_rewards(reward: np.ndarray, recipe: Recipe) -> np.ndarray:
    """Rewards [B] after the recipe's shift and scale."""
    return (reward + recipe.reward_shift) * recipe.reward_scale


def learner_rewards(reward: np.ndarray, recipe: Recipe, unit: float = 1.0) -> np.ndarray:
    """The reward that the learner sees, float32 [B]: shifted, scaled, divided by `unit`, clipped as the recipe says."""
    bound = recipe.reward_clip or (LARGEST_NORMALIZED if recipe.normalize_rewards else np.inf)
    return (scaled_rewards(reward, recipe) / unit).clip(-bound, bound).astype(np.float32)
