"""Optimizers that many processes step at once: their state lives in shared memory from the start.

All weights of a model are one vector theta here, so an update is one fused operation.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from a3c_core.recipe import Recipe


class SharedAdam(Adam):
    """Adam (Kingma & Ba 2015), optionally AMSGrad (Reddi et al. 2018), with its moments and step count shared.

    The step count is of all workers' updates together, and so is its bias correction.
    """

    def __init__(
        self, theta: Tensor, *, lr: float, betas: tuple[float, float], eps: float, amsgrad: bool = False
    ) -> None:
        super().__init__([theta], lr=lr, betas=betas, eps=eps, amsgrad=amsgrad, fused=True)
        moments = ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if amsgrad else ())
        self.state[theta] = {name: torch.zeros_like(theta).share_memory_() for name in moments}
        self.state[theta]["step"] = torch.zeros((), device=theta.device).share_memory_()


class SharedRMSprop(Optimizer):
    """The paper's RMSProp with statistics shared between workers (Mnih et al. 2016, section 4 and equation 8).

        g <- alpha g + (1 - alpha) dtheta^2,    theta <- theta - lr dtheta / sqrt(g + epsilon)

    torch.optim.RMSprop adds epsilon outside the root, which is why this class exists.
    """

    def __init__(self, theta: Tensor, *, lr: float, alpha: float, eps: float) -> None:
        super().__init__([theta], {"lr": lr, "alpha": alpha, "eps": eps})
        self.state[theta]["square_avg"] = torch.zeros_like(theta).share_memory_()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        (group,) = self.param_groups
        (theta,) = group["params"]
        square_avg = self.state[theta]["square_avg"]
        square_avg.mul_(group["alpha"]).addcmul_(theta.grad, theta.grad, value=1.0 - group["alpha"])
        theta.addcdiv_(theta.grad, square_avg.add(group["eps"]).sqrt_(), value=-group["lr"])


OPTIMIZERS: dict[str, Callable[[Tensor, Recipe], Optimizer]] = {
    "adam": lambda theta, r: SharedAdam(theta, lr=r.learning_rate, betas=r.adam_betas, eps=r.epsilon),
    "amsgrad": lambda theta, r: SharedAdam(theta, lr=r.learning_rate, betas=r.adam_betas, eps=r.epsilon, amsgrad=True),
    "rmsprop": lambda theta, r: SharedRMSprop(theta, lr=r.learning_rate, alpha=r.rmsprop_alpha, eps=r.epsilon),
}


def build_optimizers(theta: Tensor, recipe: Recipe) -> list[Optimizer]:
    """One optimizer for all workers, or one each where statistics are not shared; all of them write `theta`.

    Worker `rank` uses number `rank` modulo how many there are.
    """
    count = 1 if recipe.share_statistics else recipe.workers
    return [OPTIMIZERS[recipe.optimizer](theta, recipe) for _ in range(count)]
