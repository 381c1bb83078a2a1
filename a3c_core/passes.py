"""Several gradients from one rollout: passes, minibatches, and targets that V-trace corrects before each pass."""

from collections.abc import Iterator

import torch
from torch import Tensor

from a3c_core.loss import Batch, batch_of, discounted_sums
from a3c_core.model import ActorCritic
from a3c_core.off_policy import truncated_ratios
from a3c_core.recipe import Recipe
from a3c_core.rollout import Rollout


def batches(rollout: Rollout, recipe: Recipe, model: ActorCritic) -> Iterator[Batch]:
    """What each gradient of a rollout is computed from: the whole of it, or random parts, in every pass.

    Its targets are fixed by the weights that acted, or corrected in every pass for those that `model` has by then.
    """
    whole = batch_of(rollout, recipe)
    for _ in range(recipe.passes):
        if recipe.vtrace:
            whole = corrected(rollout, recipe, model)
        yield from minibatches(whole, recipe)


@torch.no_grad()
def corrected(rollout: Rollout, recipe: Recipe, model: ActorCritic) -> Batch:
    """The rollout with the targets of V-trace: for the policy and the values of `model` instead of those that acted.

    Only the value of the observation where the rollout stopped stays that of the weights that acted.
    """
    policy, values, _ = model(rollout.obs, rollout.reset, rollout.memory)
    ratios = truncated_ratios(policy.log_prob(rollout.actions), rollout.log_probs)
    bootstrapped = torch.cat([values, rollout.values[-1:]])
    estimates = vtrace_advantages(
        rollout.rewards, bootstrapped, rollout.discounts, gae_lambda=recipe.gae_lambda, ratios=ratios
    )
    returns = values + ratios * estimates
    return Batch(rollout.obs, rollout.reset, rollout.actions, rollout.log_probs, estimates, returns, rollout.memory)


def vtrace_advantages(
    rewards: Tensor, values: Tensor, discounts: Tensor, *, gae_lambda: float, ratios: Tensor
) -> Tensor:
    """The advantages of V-trace (Espeholt et al. 2018, section 4.1, both bounds 1), as `loss.advantages` otherwise:

        A_t = delta_t + gamma_t lambda rho_t+1 A_t+1,    rho_t = min(1, pi(a_t|s_t) / pi_acting(a_t|s_t))

    Its targets of the value are V(s_t) + rho_t A_t. `ratios` [T, B] are rho; where each is 1, nothing is corrected.
    """
    deltas = rewards + discounts * values[1:] - values[:-1]
    following = torch.cat([ratios[1:], torch.ones_like(ratios[:1])])
    return discounted_sums(deltas, discounts * gae_lambda * following)


def minibatches(batch: Batch, recipe: Recipe) -> Iterator[Batch]:
    """One pass over a batch: the whole of it, or random parts.

    Parts are made of single steps, but of whole sequences where a recurrent core carries its memory through them.
    """
    if recipe.minibatches == 1:
        yield batch
        return
    if not batch.memory:
        batch = Batch(*(part.flatten(0, 1)[None] for part in batch[:-1]), memory=())
    columns = torch.randperm(batch.advantages.shape[1])
    for part in columns.chunk(recipe.minibatches):
        yield Batch(*(each[:, part] for each in batch[:-1]), memory=tuple(each[part] for each in batch.memory))
