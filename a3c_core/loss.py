"""The mathematics of advantage actor-critic, as pure functions of time-major tensors."""

from typing import NamedTuple

import torch
from torch import Tensor

from a3c_core.model import ActorCritic, Memory
from a3c_core.off_policy import off_policy_objective
from a3c_core.recipe import Recipe
from a3c_core.rollout import Rollout


def advantages(rewards: Tensor, values: Tensor, discounts: Tensor, *, gae_lambda: float) -> Tensor:
    """Generalized advantage estimates (Schulman et al. 2016, equation 16).

        delta_t = r_t + gamma_t V(s_t+1) - V(s_t)
        A_t     = delta_t + gamma_t lambda A_t+1,    A_T = 0

    With lambda = 1 this is the n-step return of A3C minus the value (Mnih et al. 2016, section 4):
    R_t = r_t + gamma_t R_t+1 with R_T = V(s_T), and A_t = R_t - V(s_t).

    Args:
        rewards: [T, B].
        values: [T+1, B], the last one of the observation where the rollout stopped.
        discounts: [T, B], gamma, or 0 where the episode ended at that step.
        gae_lambda: lambda, between 0 and 1.

    Returns:
        [T, B], in units of the reward.
    """
    if not rewards.shape == discounts.shape == values[1:].shape:
        raise ValueError(f"shapes differ: rewards {rewards.shape}, discounts {discounts.shape}, values {values.shape}")
    deltas = rewards + discounts * values[1:] - values[:-1]
    return discounted_sums(deltas, discounts * gae_lambda)


def discounted_sums(terms: Tensor, discounts: Tensor) -> Tensor:
    """S_t = x_t + d_t S_t+1 of terms x and discounts d, each [T, B]; after the last step the sum is 0."""
    total, totals = torch.zeros_like(terms[0]), []
    for term, discount in zip(reversed(terms.unbind()), reversed(discounts.unbind()), strict=True):
        total = torch.addcmul(term, discount, total)
        totals.append(total)
    return torch.stack(totals[::-1])


class Batch(NamedTuple):
    """What is learnt from: a rollout with its targets, or a part of it. N environments or single steps side by side."""

    obs: Tensor
    """[T, N, ...]"""
    reset: Tensor
    """[T, N]"""
    actions: Tensor
    """[T, N] or [T, N, ...]"""
    log_probs: Tensor
    """[T, N] when the actions were taken; 0 where the recipe is on-policy."""
    advantages: Tensor
    """[T, N]"""
    returns: Tensor
    """[T, N] what the value should have been: advantage plus the value, corrected where the recipe says so."""
    memory: Memory
    """The core's memory before the first observation, each part [N, size]."""


def batch_of(rollout: Rollout, recipe: Recipe) -> Batch:
    """The rollout with the targets of the weights that acted."""
    estimates = advantages(rollout.rewards, rollout.values, rollout.discounts, gae_lambda=recipe.gae_lambda)
    returns = estimates + rollout.values[:-1]
    return Batch(rollout.obs, rollout.reset, rollout.actions, rollout.log_probs, estimates, returns, rollout.memory)


class Losses(NamedTuple):
    """The loss of one batch and its parts, each a scalar: a mean over all T x N steps."""

    total: Tensor
    """What is minimized."""
    policy: Tensor
    """Minus log-probability of the action taken, times its advantage; or the clipped objective's negative."""
    value: Tensor
    """Half the squared error of the value."""
    entropy: Tensor
    """Entropy of the policy in nats."""
    explained_variance: Tensor
    """1 - Var(R - V) / Var(R): 1 is a perfect value, 0 a constant one."""
    clipped: Tensor
    """Share of the steps whose probability ratio is beyond the clip, where the policy's gradient may be 0."""


def a3c_loss(model: ActorCritic, batch: Batch, recipe: Recipe) -> Losses:
    """The loss whose gradient each worker hands over (Mnih et al. 2016, section 4 and algorithm S3).

        L = mean( -log pi(a_t|s_t) A_t  +  value_cost / 2 (R_t - V(s_t))^2  -  entropy_cost H(pi(.|s_t)) )

    where A_t and R_t are constants. The paper sums over the steps of a rollout; the mean keeps the learning rate's
    meaning when rollouts and batches grow. Where the recipe clips the policy's objective or corrects it by V-trace,
    the first term is another (see `off_policy`).
    """
    policy, values, _ = model(batch.obs, batch.reset, batch.memory)
    weight = batch.advantages
    if recipe.normalize_advantages and weight.numel() > 1:
        weight = (weight - weight.mean()) / (weight.std(correction=0) + 1e-8)

    log_probs = policy.log_prob(batch.actions)
    if recipe.off_policy:
        objective, clipped = off_policy_objective(weight, log_probs, batch.log_probs, recipe)
    else:
        objective, clipped = weight * log_probs, torch.zeros(())
    policy_loss = -objective.mean()
    error = batch.returns - values
    value_loss = 0.5 * error.square().mean()
    entropy = policy.entropy().mean()
    total = policy_loss + recipe.value_cost * value_loss - recipe.entropy_cost * entropy
    explained = 1.0 - error.detach().var(correction=0) / batch.returns.var(correction=0).clamp_min(1e-8)
    return Losses(total, policy_loss, value_loss, entropy, explained, clipped)
