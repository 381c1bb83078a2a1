"""Running statistics that bring observations and rewards to unit scale. All workers contribute to one set of them."""

from collections.abc import Iterator
from typing import NamedTuple

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
