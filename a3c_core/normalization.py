"""Observations and rewards as the learner sees them: running statistics of all workers bring them to unit scale."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from a3c_core.recipe import Recipe

LARGEST_NORMALIZED = 10.0
"""Normalised observations and rewards are clipped to this on both sides."""


class Moments(NamedTuple):
    """Count, mean and variance of some samples."""

    count: Tensor
    """[]"""
    mean: Tensor
    """[...] of one sample's shape."""
    variance: Tensor
    """[...] of the population."""

    @classmethod
    def of(cls, samples: Tensor) -> "Moments":
        """The moments of samples [N, ...], in float64."""
        samples = samples.double()
        return cls(torch.tensor(float(len(samples))), samples.mean(0), samples.var(0, correction=0))


class RunningMoments(nn.Module):
    """Mean and variance of all samples so far, as buffers: a checkpoint holds them beside the weights."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.ones(shape))

    @torch.no_grad()
    def add(self, new: Moments) -> None:
        """Merges the moments of more samples (Chan et al. 1983, "Algorithms for Computing the Sample Variance").

        n = n_a + n_b,  d = mean_b - mean_a
        mean = mean_a + d n_b / n,  variance = (n_a var_a + n_b var_b + d^2 n_a n_b / n) / n
        """
        total = self.count + new.count
        share = new.count / total
        difference = new.mean - self.mean
        self.variance.mul_(1.0 - share).add_(share * new.variance + share * (1.0 - share) * difference.square())
        self.mean.add_(share * difference)
        self.count.copy_(total)

    @property
    def std(self) -> Tensor:
        """Standard deviation, never 0."""
        return (self.variance + 1e-8).sqrt()


class Normalizer(nn.Module):
    """What the recipe wants normalised. Without any it has no buffers and changes nothing."""

    def __init__(self, shape: tuple[int, ...], recipe: Recipe) -> None:
        super().__init__()
        self.observations = RunningMoments(shape) if recipe.normalize_observations else None
        self.returns = RunningMoments(()) if recipe.normalize_rewards else None
        """Of the discounted sum of past rewards, whose deviation is the unit of the learner's reward."""

    def forward(self, obs: Tensor) -> Tensor:
        """Observations [..., *shape] with mean 0 and standard deviation 1 in each element, clipped."""
        if self.observations is None:
            return obs
        scaled = (obs - self.observations.mean) / self.observations.std
        return scaled.clamp(-LARGEST_NORMALIZED, LARGEST_NORMALIZED)

    @property
    def reward_unit(self) -> float:
        """How much reward of the environment, after the recipe's shift and scale, is 1 to the learner."""
        return 1.0 if self.returns is None else float(self.returns.std)

    def running(self) -> Iterator[RunningMoments]:
        """The statistics in use, in a fixed order."""
        yield from (part for part in (self.observations, self.returns) if part is not None)

    def add(self, moments: Iterable[Moments]) -> None:
        """Merges the moments of more samples into the statistics in use."""
        for part, new in zip(self.running(), moments, strict=False):
            part.add(new)

    def copy(self, other: "Normalizer") -> None:
        """Takes over the statistics of another one of the same recipe."""
        for part, theirs in zip(self.running(), other.running(), strict=True):
            part.load_state_dict(theirs.state_dict())


class RolloutMoments:
    """The moments of one rollout after the other, for each of the normalizer's statistics in use."""

    def __init__(self, recipe: Recipe, environments: int) -> None:
        self._recipe = recipe
        self._discounted = np.zeros(environments)
        """The discounted sum of the rewards so far in each episode: its deviation is the unit of rewards."""
        self._sums: list[np.ndarray] = []
        """These sums after each step of the rollout."""

    def add(self, scaled: np.ndarray, done: np.ndarray) -> None:
        """Takes in the scaled rewards of a step and where an episode ended, each [B]."""
        if not self._recipe.normalize_rewards:
            return
        self._sums.append(self._recipe.gamma * self._discounted + scaled)
        self._discounted = np.where(done, 0.0, self._sums[-1])

    def end(self, obs: Tensor) -> list[Moments]:
        """The moments of a rollout that has ended, with its observations [T, B, ...]."""
        sums, self._sums = self._sums, []
        observations = [Moments.of(obs.flatten(0, 1).cpu())] if self._recipe.normalize_observations else []
        returns = [Moments.of(torch.from_numpy(np.concatenate(sums)))] if self._recipe.normalize_rewards else []
        return observations + returns


def scaled_rewards(reward: np.ndarray, recipe: Recipe, shifted: np.ndarray | bool) -> np.ndarray:
    """Rewards [B] after the recipe's shift, which is added where `shifted` is true, and its scale."""
    return (reward + recipe.reward_shift * shifted) * recipe.reward_scale


def learner_rewards(scaled: np.ndarray, recipe: Recipe, unit: float = 1.0) -> np.ndarray:
    """The reward that the learner sees, float32 [B]: scaled rewards, divided by `unit`, clipped as the recipe says."""
    bound = recipe.reward_clip or (LARGEST_NORMALIZED if recipe.normalize_rewards else np.inf)
    return (scaled / unit).clip(-bound, bound).astype(np.float32)
