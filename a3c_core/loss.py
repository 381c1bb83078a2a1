"""The mathematics of advantage actor-critic, as pure functions of time-major tensors."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from a3c_core.model import ActorCritic, Memory
from a3c_core.recipe import Recipe
from a3c_core.rollout import Rollout


def advantages(
    rewards: Tensor, values: Tensor, discounts: Tensor, *, gae_lambda: float, ratios: Tensor | None = None
) -> Tensor:
    """Generalized advantage estimates (Schulman et al. 2016, equation 16).

        delta_t = r_t + gamma_t V(s_t+1) - V(s_t)
        A_t     = delta_t + gamma_t lambda A_t+1,    A_T = 0

    With lambda = 1 this is the n-step return of A3C minus the value (Mnih et al. 2016, section 4):
    R_t = r_t + gamma_t R_t+1 with R_T = V(s_T), and A_t = R_t - V(s_t).

    With `ratios` these are the advantages of V-trace (Espeholt et al. 2018, section 4.1, both bounds 1):

        A_t = delta_t + gamma_t lambda rho_t+1 A_t+1,    rho_t = min(1, pi(a_t|s_t) / pi_acting(a_t|s_t))

    and its targets of the value are V(s_t) + rho_t A_t.

    Args:
        rewards: [T, B].
        values: [T+1, B], the last one of the observation where the rollout stopped.
        discounts: [T, B], gamma, or 0 where the episode ended at that step.
        gae_lambda: lambda, between 0 and 1.
        ratios: [T, B], rho; without them every one is 1.

    Returns:
        [T, B], in units of the reward.
    """
    if not rewards.shape == discounts.shape == values[1:].shape:
        raise ValueError(f"shapes differ: rewards {rewards.shape}, discounts {discounts.shape}, values {values.shape}")
    deltas = rewards + discounts * values[1:] - values[:-1]
    decay = discounts * gae_lambda
    if ratios is not None:
        decay = decay * torch.cat([ratios[1:], torch.ones_like(ratios[:1])])
    estimate, estimates = torch.zeros_like(rewards[0]), []
    for delta, factor in zip(reversed(deltas.unbind()), reversed(decay.unbind()), strict=True):
        estimate = torch.addcmul(delta, factor, estimate)
        estimates.append(estimate)
    return torch.stack(estimates[::-1])


class Batch(NamedTuple):
    """What is learnt from: a rollout with its targets, or a part of it. N environments or single steps side by side."""

    obs: Tensor
    """[T, N, ...]"""
    reset: Tensor
    """[T, N]"""
    actions: Tensor
    """[T, N] or [T, N, ...]"""
    log_probs: Tensor
    """[T, N] when the actions were taken."""
    advantages: Tensor
    """[T, N]"""
    returns: Tensor
    """[T, N] what the value should have been: advantage plus the value, corrected where the recipe says so."""
    memory: Memory
    """The core's memory before the first observation, each part [N, size]."""

    def take(self, columns: Tensor) -> "Batch":
        """The batch of some of the N columns."""
        parts = (part[:, columns] for part in self[:-1])
        return Batch(*parts, memory=tuple(part[columns] for part in self.memory))


def batches(rollout: Rollout, recipe: Recipe, model: ActorCritic) -> Iterator[Batch]:
    """What each gradient of a rollout is computed from: the whole of it, or random parts, in every pass.

    Its targets are fixed by the weights that acted, or corrected in every pass for those that `model` has by then.
    """
    whole = batch_of(rollout, recipe)
    for _ in range(recipe.passes):
        if recipe.vtrace:
            whole = corrected(rollout, recipe, model)
        yield from minibatches(whole, recipe)


def batch_of(rollout: Rollout, recipe: Recipe) -> Batch:
    """The rollout with the targets of the weights that acted."""
    estimates = advantages(rollout.rewards, rollout.values, rollout.discounts, gae_lambda=recipe.gae_lambda)
    returns = estimates + rollout.values[:-1]
    return Batch(rollout.obs, rollout.reset, rollout.actions, rollout.log_probs, estimates, returns, rollout.memory)


@torch.no_grad()
def corrected(rollout: Rollout, recipe: Recipe, model: ActorCritic) -> Batch:
    """The rollout with the targets of V-trace: for the policy and the values of `model` instead of those that acted.

    Only the value of the observation where the rollout stopped stays that of the weights that acted.
    """
    policy, values, _ = model(rollout.obs, rollout.reset, rollout.memory)
    ratios = truncated_ratios(policy.log_prob(rollout.actions), rollout.log_probs)
    bootstrapped = torch.cat([values, rollout.values[-1:]])
    estimates = advantages(
        rollout.rewards, bootstrapped, rollout.discounts, gae_lambda=recipe.gae_lambda, ratios=ratios
    )
    returns = values + ratios * estimates
    return Batch(rollout.obs, rollout.reset, rollout.actions, rollout.log_probs, estimates, returns, rollout.memory)


def truncated_ratios(log_probs: Tensor, acting: Tensor) -> Tensor:
    """min(1, pi / pi_acting) of log-probabilities of any shape: the truncated importance weights of V-trace."""
    return (log_probs - acting).exp().clamp(max=1.0)


def minibatches(batch: Batch, recipe: Recipe) -> Iterator[Batch]:
    """One pass over a batch: the whole of it, or random parts.

    Parts are made of single steps, but of whole sequences where a recurrent core carries its memory through them.
    """
    if recipe.minibatches == 1:
        yield batch
        return
    if not batch.memory:
        batch = Batch(*(part.flatten(0, 1)[None] for part in batch[:-1]), memory=())
    columns = batch.advantages.shape[1]
    yield from (batch.take(part) for part in torch.randperm(columns).chunk(recipe.minibatches))


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
    meaning when rollouts and batches grow. With `clip_ratio` epsilon the first term is the clipped objective
    (Schulman et al. 2017, equation 7), whose gradient is the same as long as the weights are those that acted:

        -min( r_t A_t,  clip(r_t, 1 - epsilon, 1 + epsilon) A_t ),    r_t = pi(a_t|s_t) / pi_acting(a_t|s_t)

    With `vtrace` and no clip the first term is weighed by min(1, r_t), a constant (Espeholt et al. 2018, section 4.2).
    """
    policy, values, _ = model(batch.obs, batch.reset, batch.memory)
    weight = batch.advantages
    if recipe.normalize_advantages and weight.numel() > 1:
        weight = (weight - weight.mean()) / (weight.std(correction=0) + 1e-8)

    log_probs = policy.log_prob(batch.actions)
    if recipe.clip_ratio is None:
        if recipe.vtrace:
            weight = weight * truncated_ratios(log_probs.detach(), batch.log_probs)
        policy_loss = -(weight * log_probs).mean()
        clipped = torch.zeros(())
    else:
        ratio = (log_probs - batch.log_probs).exp()
        bounded = ratio.clamp(1.0 - recipe.clip_ratio, 1.0 + recipe.clip_ratio)
        policy_loss = -torch.minimum(weight * ratio, weight * bounded).mean()
        clipped = (ratio != bounded).float().mean()
    value_loss = 0.5 * (batch.returns - values).square().mean()
    entropy = policy.entropy().mean()
    total = policy_loss + recipe.value_cost * value_loss - recipe.entropy_cost * entropy
    error = (batch.returns - values).detach().var(correction=0)
    explained = 1.0 - error / batch.returns.var(correction=0).clamp_min(1e-8)
    return Losses(total, policy_loss, value_loss, entropy, explained, clipped)
