"""What the policy maximizes once the weights are no longer those that acted: a clipped or a corrected objective.

Here r_t = pi(a_t|s_t) / pi_acting(a_t|s_t): the probability of an action under the weights that learn, over that under
the weights that took it.
"""

import torch
from torch import Tensor

from a3c_core.recipe import Recipe


def off_policy_objective(
    advantages: Tensor, log_probs: Tensor, acting: Tensor, recipe: Recipe
) -> tuple[Tensor, Tensor]:
    """The objective of each step, of the inputs' shape, and the share of the steps beyond the clip, a scalar.

    With `clip_ratio` epsilon it is the clipped objective (Schulman et al. 2017, equation 7), whose gradient is that of
    A3C as long as the weights are those that acted:

        min( r_t A_t,  clip(r_t, 1 - epsilon, 1 + epsilon) A_t )

    With `vtrace` alone it is A3C's, weighed by min(1, r_t), a constant (Espeholt et al. 2018, section 4.2).

    Args:
        advantages: A_t, constants.
        log_probs: log pi(a_t|s_t), with a gradient.
        acting: log pi_acting(a_t|s_t), constants.
        recipe: has `clip_ratio` or `vtrace`.
    """
    if recipe.clip_ratio is None:
        return advantages * truncated_ratios(log_probs.detach(), acting) * log_probs, torch.zeros(())
    ratio = (log_probs - acting).exp()
    bounded = ratio.clamp(1.0 - recipe.clip_ratio, 1.0 + recipe.clip_ratio)
    return torch.minimum(advantages * ratio, advantages * bounded), (ratio != bounded).float().mean()


def truncated_ratios(log_probs: Tensor, acting: Tensor) -> Tensor:
    """min(1, pi / pi_acting) of log-probabilities of any shape: the truncated importance weights of V-trace."""
    return (log_probs - acting).exp().clamp(max=1.0)
