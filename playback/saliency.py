"""What an agent looks at: where a picture has to be hidden to change what the agent would do, or what it expects."""

from typing import NamedTuple

import torch
from torch import Tensor

from a3c_core.model import ActorCritic, DiscretePolicy, Memory

GRID = 12
"""Places along each side of the picture: 7 pixels apart, a little more than a mask's sigma."""
MASK_SIGMA, BLUR_SIGMA = 5.0, 3.0
"""Pixels of the picture that the agent sees, as in the paper."""


class Saliency(NamedTuple):
    """Two maps of one observation, float32 [grid, grid], 0 where nothing depends on the picture."""

    policy: Tensor
    value: Tensor


@torch.no_grad()
def saliency(model: ActorCritic, obs: Tensor, memory: Memory, *, grid: int = GRID) -> Saliency:
    """How much the policy, and how much the value, depends on each part of one observation.

    Greydanus et al. 2018, "Visualizing and Understanding Atari Agents", sections 3.1 and 3.2: the picture I is blurred
    (A) around one place after another, with a Gaussian mask M that is 1 at its centre, so that what is there is hidden,

        I' = I (1 - M) + A M,        S_pi = 1/2 ||pi(I) - pi(I')||^2,        S_V = 1/2 (V(I) - V(I'))^2

    where pi are the policy's logits, here as log-probabilities: a constant added to all logits means nothing.
    All places are computed as one batch, and both maps from it.

    Args:
        model: a network with a finite number of actions.
        obs: [frames, height, width] numbers of one observation; all its frames are blurred alike.
        memory: what the agent carries from before it, each part [1, size].
        grid: rows and columns of the maps, evenly spaced over the picture.

    Raises ValueError for a policy of another kind.
    """
    picture = obs.float()
    _, height, width = picture.shape
    blur_down, blur_across = (blur(size, BLUR_SIGMA) for size in (height, width))
    hidden = blur_down @ picture @ blur_across.T
    down, across = (bells(centres(grid, size), size, MASK_SIGMA) for size in (height, width))
    masks = (down[:, None, :, None] * across[None, :, None, :]).view(-1, 1, height, width)
    masks = torch.cat([torch.zeros(1, 1, height, width), masks])  # the first hides nothing
    batch = torch.lerp(picture, hidden, masks)[None]
    memory = tuple(part.expand(len(batch[0]), -1) for part in memory)
    policy, values, _ = model(batch, torch.zeros(batch.shape[:2]), memory)
    if not isinstance(policy, DiscretePolicy):
        raise ValueError("saliency is of policies with a finite number of actions")
    logits, values = policy.logits[0], values[0]
    changes = (logits[:1] - logits[1:]).square().sum(-1), (values[:1] - values[1:]).square()
    return Saliency(*(0.5 * change.view(grid, grid) for change in changes))


def centres(count: int, size: int) -> Tensor:
    """The middles of `count` equal parts of `size` pixels, whose own middles are whole numbers."""
    return (torch.arange(count) + 0.5) * size / count - 0.5


def bells(middles: Tensor, size: int, sigma: float) -> Tensor:
    """Gaussians [len(middles), size] over the pixels 0 ... size - 1, 1 at their middles."""
    return torch.exp(-0.5 * ((torch.arange(size) - middles[:, None]) / sigma).square())


def blur(size: int, sigma: float) -> Tensor:
    """The matrix [size, size] that blurs a column of pixels; it keeps an even brightness, at the edge too."""
    weights = bells(torch.arange(size).float(), size, sigma)
    return weights / weights.sum(1, keepdim=True)
