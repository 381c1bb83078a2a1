"""Playing: one game to watch (play) or many to score (evaluate)."""

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from a3c_core.agent import Agent
from a3c_core.envs import FIRST_TRAINING_SEED, make_scoring_envs
from a3c_core.recipe import Recipe


class Episode(NamedTuple):
    """One game of T steps, as plain arrays: all that a page or a video needs."""

    seed: int
    frames: list[np.ndarray]
    """T+1 pictures, each [height, width, 3] uint8; empty where the game was not rendered. A list, since a game is
    hundreds of megabytes, and stacking it would take them twice."""
    frames_per_second: int
    """Speed at which the game is meant to be watched."""
    actions: np.ndarray
    """[T] int64 or [T, dimensions] float32."""
    policies: np.ndarray
    """[T, actions] probabilities, or [T, 2 * dimensions] means and standard deviations."""
    values: np.ndarray
    """[T] the discounted sum of rewards that the agent expected from here on, in the environment's own units."""
    rewards: np.ndarray
    """[T] the environment's own rewards."""

    @property
    def total(self) -> float:
        """The game's return: the undiscounted sum of its rewards."""
        return float(self.rewards.sum())


def play(
    agent: Agent,
    seed: int,
    *,
    greedy: bool = True,
    render: bool = True,
    max_steps: int = 100_000,
    progress: Callable[[int], None] = lambda steps: None,
) -> Episode:
    """Plays one game, which depends on the agent, the seed and `greedy` alone.

    `progress` is called with the number of steps after each step. Raises ValueError for a seed that is no scoring seed.
    """
    check_seeds([seed])
    generator = torch.Generator().manual_seed(seed)
    env = agent.make_env("rgb_array" if render else None)
    try:
        frames, actions, policies, values, rewards = [], [], [], [], []
        obs, _ = env.reset(seed=seed)
        memory, over = None, False
        while not over and len(actions) < max_steps:
            if render:
                frames.append(env.render())
            policy, value, memory = agent.think(np.asarray(obs)[None], memory)
            action = policy.act(greedy=greedy, generator=generator)[0, 0].numpy()
            obs, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            actions.append(action)
            policies.append(policy.describe()[0, 0].numpy())
            values.append(environment_value(value[0], agent.recipe))
            rewards.append(reward)
            progress(len(actions))
        if render:
            frames.append(env.render())
        arrays = (np.array(part) for part in (actions, policies, values, rewards))
        return Episode(seed, frames, env.metadata["render_fps"], *arrays)
    finally:
        env.close()


def environment_value(value: float, recipe: Recipe) -> float:
    """A value of the learner's reward in the environment's units: undoes the recipe's shift and scale, not its clip.

    The learner's reward is (r + shift) * scale, so with the sum of all discounts 1 / (1 - gamma)

        V_environment = V / scale - shift / (1 - gamma)

    With gamma = 1 that sum has no end, and the shift stays in.
    """
    shift = recipe.reward_shift / (1.0 - recipe.gamma) if recipe.gamma < 1.0 else 0.0
    return value / recipe.reward_scale - shift


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Score:
    """What an agent earned over many games, and under which protocol: one game per seed, true rewards."""

    env: str
    """Gymnasium id."""
    greedy: bool
    """Whether the likeliest action was taken, or one drawn from the policy."""
    steps: int
    """Steps of training that the agent had behind it."""
    first_seed: Annotated[int, Field(ge=0)]
    """Game i was reset with seed first_seed + i. Training never uses these seeds."""
    returns: Annotated[tuple[float, ...], Field(min_length=1)]
    """Each game's return."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation over the games (of the population, as numpy's default)."""
        return float(np.std(self.returns))

    @property
    def standard_error(self) -> float:
        """How far the mean strays by chance: std / sqrt(games)."""
        return self.std / len(self.returns) ** 0.5

    @property
    def protocol(self) -> str:
        """The protocol in words."""
        seeds = f"seeds {self.first_seed} to {self.first_seed + len(self.returns) - 1}"
        return f"{len(self.returns)} games, {'greedy' if self.greedy else 'sampled'} actions, {seeds}"


def evaluate(
    agent: Agent,
    episodes: int = 100,
    *,
    greedy: bool = True,
    first_seed: int = 0,
    progress: Callable[[int], None] = lambda finished: None,
) -> Score:
    """Scores an agent over `episodes` games, all stepped as one batch; each game counts once, long or short.

    `progress` is called with the number of finished games. Raises ValueError for seeds that are no scoring seeds.
    """
    if episodes < 1:
        raise ValueError("episodes must be at least 1")
    seeds = range(first_seed, first_seed + episodes)
    check_seeds(seeds)
    generator = torch.Generator().manual_seed(first_seed)
    envs = make_scoring_envs(agent.recipe, episodes)
    try:
        returns, running = np.zeros(episodes), np.ones(episodes, dtype=bool)
        obs, _ = envs.reset(seed=list(seeds))
        memory = None
        while running.any():
            policy, _, memory = agent.think(obs, memory)
            action = policy.act(greedy=greedy, generator=generator)[0].numpy()
            obs, reward, terminated, truncated, _ = envs.step(action)
            returns += reward * running
            running &= ~(terminated | truncated)
            progress(episodes - int(running.sum()))
    finally:
        envs.close()
    recipe = agent.recipe
    return Score(
        env=recipe.env, greedy=greedy, steps=agent.steps, first_seed=first_seed, returns=tuple(returns.tolist())
    )


def check_seeds(seeds: Sequence[int]) -> None:
    """Raises ValueError unless every seed is a scoring seed, which no training uses."""
    if not (seeds[0] >= 0 and seeds[-1] < FIRST_TRAINING_SEED):
        raise ValueError(f"seeds must be between 0 and {FIRST_TRAINING_SEED - 1}: larger ones are for training")
