"""What an agent looks at: where a picture has to be hidden to change what the agent would do."""

import torch
from torch import Tensor

from a3c_core.model import ActorCritic, DiscretePolicy, Memory

GRID = 12
"""Places along each side of the picture: 7 pixels apart, a little more than a mask's sigma."""
MASK_SIGMA, BLUR_SIGMA = 5.0, 3.0
"""Pixels of the picture that the agent sees, as in the paper."""


@torch.no_grad()
def saliency(model: ActorCritic, obs: Tensor, memory: Memory, *, grid: int = GRID) -> Tensor:
    """How much the policy depends on each part of one observation.

    Greydanus et al. 2018, "Visualizing and Understanding Atari Agents", sections 3.1 and 3.2: the picture I is blurred
    (A) around one place after another, with a Gaussian mask M that is 1 at its centre, so that what is there is hidden,

        I' = I (1 - M) + A M,        S = 1/2 ||pi(I) - pi(I')||^2

    where pi are the policy's logits, here as log-probabilities: a constant added to all logits means nothing.
    All places are computed as one batch.

    Args:
        model: a network with a finite number of actions.
        obs: [frames, height, width] numbers of one observation; all its frames are blurred alike.
        memory: what the agent carries from before it, each part [1, size].
        grid: rows and columns of the answer, evenly spaced over the picture.

    Returns:
        float32 [grid, grid], 0 where nothing depends on the picture.

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
    policy, _, _ = model(batch, torch.zeros(batch.shape[:2]), tuple(part.expand(len(batch[0]), -1) for part in memory))
    if not isinstance(policy, DiscretePolicy):
        raise ValueError("saliency is of policies with a finite number of actions")
    undisturbed, others = policy.logits[0, :1], policy.logits[0, 1:]
    return (0.5 * (undisturbed - others).square().sum(-1)).view(grid, grid)


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
