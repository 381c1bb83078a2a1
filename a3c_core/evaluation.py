"""Scores: an agent plays many games, one for each seed, and their returns are its Score."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from a3c_core.agent import Agent
from a3c_core.envs import FIRST_TRAINING_SEED, Protocol, is_atari, make_scoring_envs
from a3c_core.recipe import Recipe, Temperature


def environment_value(value: float, recipe: Recipe, *, unit: float = 1.0) -> float:
    """A value of the learner's reward in the environment's units: undoes the recipe's shift and scale, not its clip.

    The learner's reward is (r + shift) * scale / unit, with the unit of `Normalizer.reward_unit`, so with the sum of
    all discounts 1 / (1 - gamma)

        V_environment = V unit / scale - shift / (1 - gamma)

    That is exact where nothing terminates, as in Pendulum. The shift stays in with gamma = 1, where the sum has no end,
    and with `stall_earns_nothing`, where the play decides how often it is added.
    """
    constant = recipe.gamma < 1.0 and recipe.stall_earns_nothing is None
    shift = recipe.reward_shift / (1.0 - recipe.gamma) if constant else 0.0
    return value * unit / recipe.reward_scale - shift


Return = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Score:
    """What an agent earned over many games, and under which protocol: one game per seed, true rewards."""

    env: str
    """Gymnasium id."""
    protocol: Protocol
    """Rules of the games; see `a3c_core.envs.Protocol`."""
    greedy: bool
    """Whether the likeliest action was taken, or one drawn from the policy."""
    steps: int
    """Steps of training that the agent had behind it."""
    first_seed: Annotated[int, Field(ge=0)]
    """Game i was reset with seed first_seed + i. Training never uses these seeds."""
    returns: Annotated[tuple[Return, ...], Field(min_length=1)]
    """Each game's return."""
    temperature: Temperature = 1.0
    """Temperature of the policy that actions were drawn from; see `Recipe.sampling_temperature`."""
    distinct: Annotated[int, Field(ge=1)] | None = None
    """How many of the games differ from all others in their actions; None for scores from before it was counted."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation over the games (of the population, as numpy's default)."""
        return float(np.std(self.returns))

    @property
    def median(self) -> float:
        return float(np.median(self.returns))

    @property
    def best(self) -> float:
        return max(self.returns)

    @property
    def standard_error(self) -> float:
        """How far the mean strays by chance: std / sqrt(games)."""
        return self.std / len(self.returns) ** 0.5

    @property
    def interval(self) -> tuple[float, float]:
        """Where the mean over all seeds lies with 95 % confidence: mean ± 1.96 standard errors, taken as normal."""
        return self.mean - 1.96 * self.standard_error, self.mean + 1.96 * self.standard_error

    @property
    def conditions(self) -> str:
        """How the games were played, in words."""
        rules = f"{self.protocol} protocol, " if is_atari(self.env) else ""
        seeds = f"seeds {self.first_seed} to {self.first_seed + len(self.returns) - 1}"
        drawn = "sampled actions" if self.temperature == 1.0 else f"sampled actions (temperature {self.temperature:g})"
        return f"{rules}{len(self.returns)} games, {'greedy actions' if self.greedy else drawn}, {seeds}"


def games_at_once(env: str, episodes: int) -> int:
    """How many of the games that score an agent are stepped together.

    Many make good use of a batch. In Atari the longest game can take twenty times as long as others, and as many places
    idle until it has ended, so each has two games to play; and making an emulator takes a tenth of a second, in which
    no other thread of Python runs, so a few games have few.
    """
    return min(episodes, max(8, min(50, episodes // 2)) if is_atari(env) else 32)


class Stepped(NamedTuple):
    """One step of the games that are being scored, those that count."""

    game: np.ndarray
    """Which games, int64 [games]."""
    obs: np.ndarray
    """What the agent saw before the step, [games, *observation]."""
    reward: np.ndarray
    """Float [games]."""
    truncated: np.ndarray
    """Which of them were cut off, bool [games]."""
    lives: np.ndarray
    """How many lives are left after it, int [games]; 0 in games without lives. No meaning where truncated."""


def evaluate(
    agent: Agent,
    episodes: int = 100,
    *,
    greedy: bool = True,
    protocol: Protocol = "classic",
    first_seed: int = 0,
    progress: Callable[[int], None] = lambda finished: None,
    watch: Callable[[Stepped], None] = lambda stepped: None,
) -> Score:
    """Scores an agent over `episodes` games, stepped in batches; each game counts once, long or short, and is the one
    that `play` plays with its seed but for the rounding of a batch.

    `progress` is called with the number of finished games after each step; what it raises ends the evaluation.
    `watch` is called with each step. Raises ValueError for seeds that are no scoring seeds.
    """
    if episodes < 1:
        raise ValueError("episodes must be at least 1")
    seeds = range(first_seed, first_seed + episodes)
    check_seeds(seeds)
    count = games_at_once(agent.recipe.env, episodes)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds[:count]]
    returns, finished = np.zeros(episodes), 0
    game, fresh, memory = np.arange(count), np.ones(count, dtype=bool), None
    places = np.arange(count)  # whose games count: in the end they are few, and the agent acts for them alone
    actions = [hashlib.blake2b(digest_size=16) for _ in seeds]
    with closing(make_scoring_envs(agent.recipe, count, protocol)) as envs:
        obs, _ = envs.reset(seed=[seeds[g] for g in game])
        while (counts := game < episodes).any():
            memory = memory and tuple(part[counts[places]] for part in memory)
            places = np.flatnonzero(counts)
            seen = obs[places]
            policy, _, memory = agent.policy_and_value(seen, memory, fresh[places])
            chosen = policy.act(greedy=greedy, generators=[generators[place] for place in places])[0].numpy()
            action = np.repeat(chosen[:1], count, axis=0)  # any that is allowed, where the game does not count
            action[places] = chosen
            obs, reward, terminated, truncated, info = envs.step(action)
            returns[game[places]] += reward[places]
            for place in places:
                actions[game[place]].update(action[place].tobytes())
            lives = np.where(terminated, 0, info.get("lives", 0))  # the info is of the next game where one has ended
            watch(Stepped(game[places], seen, reward[places], truncated[places], lives[places]))
            fresh = terminated | truncated
            if fresh.any():  # the next games take the places; in the end there are places whose games don't count
                finished += int(fresh[places].sum())
                game[fresh] = game.max() + 1 + np.arange(fresh.sum())
                seed = [seeds[g % episodes] for g in game]
                obs, _ = envs.reset(seed=seed, options={"reset_mask": fresh})
                for place in np.flatnonzero(fresh):
                    generators[place].manual_seed(seed[place])
            progress(finished)
    return Score(
        env=agent.recipe.env,
        protocol=protocol,
        greedy=greedy,
        steps=agent.steps,
        first_seed=first_seed,
        returns=tuple(returns.tolist()),
        temperature=agent.recipe.sampling_temperature,
        distinct=len({each.digest() for each in actions}),
    )


def check_seeds(seeds: Sequence[int]) -> None:
    """Raises ValueError unless every seed is a scoring seed, which no training uses."""
    if not (seeds[0] >= 0 and seeds[-1] < FIRST_TRAINING_SEED):
        raise ValueError(f"seeds must be between 0 and {FIRST_TRAINING_SEED - 1}: larger ones are for training")
