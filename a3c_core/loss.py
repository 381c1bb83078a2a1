"""The mathematics of advantage actor-critic, as pure functions of time-major tensors."""

from typing import NamedTuple

import torch
from torch import Tensor

from a3c_core.activation_cache import Recall
from a3c_core.model import ActorCritic
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
    decay = discounts * gae_lambda
    estimate, estimates = torch.zeros_like(rewards[0]), []
    for delta, factor in zip(reversed(deltas.unbind()), reversed(decay.unbind()), strict=True):
        estimate = torch.addcmul(delta, factor, estimate)
        estimates.append(estimate)
    return torch.stack(estimates[::-1])


class Losses(NamedTuple):
    """The loss of one rollout and its parts, each a scalar: a mean over all T x B steps."""

    total: Tensor
    """What is minimized."""
    policy: Tensor
    """Minus log-probability of the action taken, times its advantage."""
    value: Tensor
    """Half the squared error of the value."""
    entropy: Tensor
    """Entropy of the policy in nats."""
    explained_variance: Tensor
    """1 - Var(R - V) / Var(R): 1 is a perfect value, 0 a constant one."""


def a3c_loss(model: ActorCritic, rollout: Rollout, recipe: Recipe) -> Losses:
    """The loss whose gradient each worker hands over (Mnih et al. 2016, section 4 and algorithm S3).

        L = mean( -log pi(a_t|s_t) A_t  +  value_cost / 2 (R_t - V(s_t))^2  -  entropy_cost H(pi(.|s_t)) )

    where A_t and R_t = A_t + V(s_t) are constants. The paper sums over the steps of a rollout; the mean keeps
    the learning rate's meaning when rollouts and batches grow. The weights must be those that acted: what the encoder
    computed then is used again.
    """
    with Recall(rollout.encoded):
        policy, values, _ = model(rollout.obs, rollout.reset, rollout.memory)
    fixed = torch.cat([values.detach(), rollout.bootstrap[None]])
    advantage = advantages(rollout.rewards, fixed, rollout.discounts, gae_lambda=recipe.gae_lambda)
    returns = advantage + fixed[:-1]
    weight = advantage
    if recipe.normalize_advantages and advantage.numel() > 1:
        weight = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)

    policy_loss = -(weight * policy.log_prob(rollout.actions)).mean()
    value_loss = 0.5 * (returns - values).square().mean()
    entropy = policy.entropy().mean()
    total = policy_loss + recipe.value_cost * value_loss - recipe.entropy_cost * entropy
    explained = 1.0 - advantage.var(correction=0) / returns.var(correction=0).clamp_min(1e-8)
    return Losses(total, policy_loss, value_loss, entropy, explained)
