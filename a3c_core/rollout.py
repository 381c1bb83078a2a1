"""Collecting experience: a Stepper steps a batch of environments and returns what it saw as a Rollout."""

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from a3c_core.envs import final_observations
from a3c_core.model import ActorCritic, Memory
from a3c_core.normalization import Moments, RolloutMoments, learner_rewards, scaled_rewards
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
    """[T, B] gamma, or 0 where the return ends (with the episode, or as the recipe says): no value flows over it."""
    log_probs: Tensor
    """[T, B] log-probability of each action when it was taken; 0 where the recipe is on-policy and nobody asks."""
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
        self._moments = RolloutMoments(recipe, envs.num_envs)
        self._without_reward = np.zeros(envs.num_envs, dtype=np.int64)
        """Steps since the latest reward or the beginning of the game."""

    @torch.no_grad()
    def rollout(self, model: ActorCritic, n_steps: int) -> Rollout:
        """Takes `n_steps` steps in each environment with actions drawn from `model`'s policy."""
        recipe, memory_before, unit = self.recipe, self._memory, model.normalizer.reward_unit
        self.finished, steps = [], []
        for _ in range(n_steps):
            obs, reset = self._tensor(self._obs), self._tensor(self._reset)
            policy, value, self._memory = model(obs[None], reset[None], self._memory)
            action = policy.act()
            log_prob = policy.log_prob(action) if recipe.off_policy else torch.zeros_like(value)
            self._obs, reward, terminated, truncated, info = self.envs.step(action[0].cpu().numpy())
            done = terminated | truncated
            self._without_reward = np.where(reward != 0, 0, self._without_reward + 1)
            shifted = self._without_reward <= (recipe.stall_earns_nothing or np.inf)
            scaled = scaled_rewards(reward, recipe, shifted)
            learner_reward = learner_rewards(scaled, recipe, unit)
            cut_short = truncated & ~terminated
            if cut_short.any():
                final = self._value_of(final_observations(self._obs, info), np.zeros_like(self._reset), model)
                learner_reward += recipe.gamma * cut_short * final.cpu().numpy()
            stops = self._stops(done, reward, info)
            self._without_reward[done] = 0
            discount = self._tensor(np.where(stops, 0.0, recipe.gamma).astype(np.float32))
            steps.append((obs, reset, action[0], self._tensor(learner_reward), discount, log_prob[0], value[0]))
            self._reset = done.astype(np.float32)
            self._moments.add(scaled, done)
            self._count(reward, done)
        *parts, values = zip(*steps, strict=True)
        values += (self._value_of(self._obs, self._reset, model),)
        rollout = Rollout(*map(torch.stack, (*parts, values)), memory=memory_before)
        self.moments = self._moments.end(rollout.obs)
        return rollout

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _value_of(self, obs: np.ndarray, reset: np.ndarray, model: ActorCritic) -> Tensor:
        """V [B] of observations that follow the ones just acted on."""
        _, value, _ = model(self._tensor(obs)[None], self._tensor(reset)[None], self._memory)
        return value[0]

    def _stops(self, done: np.ndarray, reward: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        """Bool [B]: where the return ends after this step."""
        stops = done
        if self.recipe.life_loss_ends_return:
            stops = stops | self._lives_lost(info)
        if self.recipe.reward_ends_return:
            stops = stops | (reward != 0)
        if self.recipe.stall_ends_return is not None:
            stops = stops | ((reward == 0) & (self._without_reward % self.recipe.stall_ends_return == 0))
        return stops

    def _lives_lost(self, info: dict[str, Any]) -> np.ndarray:
        """Bool [B]: where a life was lost in this step and the game went on; a new game has more lives."""
        before, self._lives = self._lives, info.get("lives", self._lives)
        return self._lives < before

    def _count(self, reward: np.ndarray, done: np.ndarray) -> None:
        self._returns += reward
        self.finished += self._returns[done].tolist()
        self._returns[done] = 0.0
