"""Collecting experience: a Stepper steps a batch of environments and returns what it saw as a Rollout."""

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from a3c_core.activation_cache import Keep
from a3c_core.envs import final_observations
from a3c_core.model import ActorCritic, Memory
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
    bootstrap: Tensor
    """[B] V of the observation where the rollout stopped."""
    memory: Memory
    """The core's memory before the first observation, each part [B, size]."""
    encoded: tuple[Tensor, ...] = ()
    """What the encoder's layers put out for `obs` (see `recall`), each [T * B, ...]; empty if nobody kept it."""


class Stepper:
    """B environments on their way: current observations, memory, and the returns of the episodes under way."""

    def __init__(self, envs: VectorEnv, recipe: Recipe, model: ActorCritic, seed: int) -> None:
        self.envs, self.recipe = envs, recipe
        self.finished: list[float] = []
        """True returns of the episodes that ended in the latest rollout."""
        self._device = next(model.parameters()).device
        self._obs, info = envs.reset(seed=seed)
        self._lives = info.get("lives", np.zeros(envs.num_envs))
        self._reset = np.ones(envs.num_envs, dtype=np.float32)
        self._memory = model.initial_memory(envs.num_envs)
        self._returns = np.zeros(envs.num_envs)

    @torch.no_grad()
    def rollout(self, model: ActorCritic, n_steps: int) -> Rollout:
        """Takes `n_steps` steps in each environment with actions drawn from `model`'s policy."""
        recipe, memory_before = self.recipe, self._memory
        obs, reset, actions, rewards, discounts = [], [], [], [], []
        self.finished, keep = [], Keep(model.encoder)
        for _ in range(n_steps):
            obs.append(self._tensor(self._obs))
            reset.append(self._tensor(self._reset))
            with keep:
                policy, _, self._memory = model(obs[-1][None], reset[-1][None], self._memory)
            actions.append(policy.act()[0])
            self._obs, reward, terminated, truncated, info = self.envs.step(actions[-1].cpu().numpy())
            done = terminated | truncated
            learner_reward = learner_rewards(reward, recipe)
            cut_short = truncated & ~terminated
            if cut_short.any():
                final = self._value_of(final_observations(self._obs, info), np.zeros_like(self._reset), model)
                learner_reward += recipe.gamma * cut_short * final.cpu().numpy()
            rewards.append(torch.from_numpy(learner_reward))
            stops = done | self._lives_lost(info) if recipe.life_loss_ends_return else done
            discounts.append(torch.from_numpy(np.where(stops, 0.0, recipe.gamma).astype(np.float32)))
            self._reset = done.astype(np.float32)
            self._count(reward, done)
        parts = (torch.stack(part).to(self._device) for part in (obs, reset, actions, rewards, discounts))
        bootstrap = self._value_of(self._obs, self._reset, model)
        return Rollout(*parts, bootstrap=bootstrap, memory=memory_before, encoded=keep.outputs)

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


def learner_rewards(reward: np.ndarray, recipe: Recipe) -> np.ndarray:
    """The reward that the learner sees, float32 [B]: shifted, scaled, clipped as the recipe says."""
    reward = ((reward + recipe.reward_shift) * recipe.reward_scale).astype(np.float32)
    return reward if recipe.reward_clip is None else reward.clip(-recipe.reward_clip, recipe.reward_clip)
