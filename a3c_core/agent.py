"""An Agent is a network with the recipe that it came from: what a checkpoint holds and a game is played with."""

from dataclasses import replace
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch

from a3c_core.envs import Protocol, make_env, spaces_of
from a3c_core.model import ActorCritic, Memory, Policy, build_model
from a3c_core.recipe import Recipe


class Agent(NamedTuple):
    """A network and the recipe that shaped it. It holds no state: memory is handed in and out."""

    recipe: Recipe
    model: ActorCritic
    steps: int
    """Steps of training behind it."""

    @classmethod
    def untrained(cls, recipe: Recipe) -> "Agent":
        """The agent as training finds it: fresh weights from the recipe's seed. Raises UnknownEnv."""
        return cls(recipe, build_model(recipe, spaces_of(recipe)), steps=0)

    def at_temperature(self, temperature: float) -> "Agent":
        """The same agent with another `sampling_temperature` in its recipe."""
        return self._replace(recipe=replace(self.recipe, sampling_temperature=temperature))

    def make_env(self, render_mode: str | None = None, protocol: Protocol = "classic") -> gym.Env:
        """The environment that the agent was trained for, with the actions that it gives."""
        return make_env(self.recipe, render_mode, protocol)

    @torch.no_grad()
    def policy_and_value(
        self, obs: np.ndarray, memory: Memory | None = None, reset: np.ndarray | None = None
    ) -> tuple[Policy, np.ndarray, Memory]:
        """Policy (batch shape [1, B]), value [B] and new memory for observations [B, ...] of one moment.

        The policy is the network's, at the recipe's `sampling_temperature`.
        `memory` None is an empty one: the first moment of an episode. `reset` [B] empties it where an episode begins.
        """
        memory = self.model.initial_memory(len(obs)) if memory is None else memory
        reset = torch.zeros(len(obs)) if reset is None else torch.from_numpy(reset.astype(np.float32))
        policy, value, memory = self.model(torch.from_numpy(obs)[None], reset[None], memory)
        if (temperature := self.recipe.sampling_temperature) != 1.0:
            policy = policy.at_temperature(temperature)
        return policy, value[0].numpy(), memory

    def act(self, obs: np.ndarray, memory: Memory | None = None, *, greedy: bool = True) -> tuple[np.ndarray, Memory]:
        """The agent's likeliest action for one observation, or one drawn from its policy (torch.manual_seed decides
        which), and the memory to hand in with the next observation."""
        policy, _, memory = self.policy_and_value(np.asarray(obs)[None], memory)
        return policy.act(greedy=greedy)[0, 0].numpy(), memory
