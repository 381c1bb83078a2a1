"""The network: encoder -> core -> policy and value heads. All variation is in the tables at the end.

Every input is time-major, [T, B, ...]: T steps of B environments. Acting is T=1, learning T=n, the same call.
"""

import math
from collections.abc import Callable

import torch
from gymnasium.spaces import Box, Discrete, Space
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal

from a3c_core.envs import Spaces
from a3c_core.recipe import Recipe

Memory = tuple[Tensor, ...]
"""What a recurrent core carries from step to step: tensors [B, size]; empty for a feed-forward one."""


class DiscretePolicy(Categorical):
    """Probabilities of a finite number of actions; actions are int64 [T, B]."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__(logits=logits, validate_args=False)

    def act(self, *, greedy: bool = False, generator: torch.Generator | None = None) -> Tensor:
        """The likeliest action, or one drawn from the policy."""
        if greedy:
            return self.logits.argmax(-1)
        drawn = torch.multinomial(self.probs.flatten(0, -2), 1, generator=generator)
        return drawn.view(self.batch_shape)

    def describe(self) -> Tensor:
        """Each action's probability, [T, B, actions]."""
        return self.probs


class ContinuousPolicy(Independent):
    """A normal distribution for each dimension of the action; actions are float32 [T, B, dimensions]."""

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__(Normal(mean, std, validate_args=False), 1, validate_args=False)

    def act(self, *, greedy: bool = False, generator: torch.Generator | None = None) -> Tensor:
        """The mean action, or one drawn from the policy."""
        return self.mean if greedy else torch.normal(self.mean, self.stddev, generator=generator)

    def describe(self) -> Tensor:
        """Mean and standard deviation of each dimension, [T, B, 2 * dimensions]."""
        return torch.cat([self.mean, self.stddev], -1)


Policy = DiscretePolicy | ContinuousPolicy


class DiscreteHead(nn.Module):
    def __init__(self, features: int, space: Discrete, recipe: Recipe) -> None:
        super().__init__()
        self.logits = mlp(features, recipe.head_layers, int(space.n), gain=0.01)

    def forward(self, features: Tensor) -> DiscretePolicy:
        return DiscretePolicy(self.logits(features))


class ContinuousHead(nn.Module):
    def __init__(self, features: int, space: Box, recipe: Recipe) -> None:
        super().__init__()
        self.mean = mlp(features, recipe.head_layers, math.prod(space.shape), gain=0.01)
        self.log_std = nn.Parameter(torch.full(space.shape, math.log(recipe.initial_std)))

    def forward(self, features: Tensor) -> ContinuousPolicy:
        mean = self.mean(features)
        return ContinuousPolicy(mean, self.log_std.exp().expand_as(mean))


class NoCore(nn.Module):
    """A core without memory: hands its input on."""

    def __init__(self, features: int, recipe: Recipe) -> None:
        super().__init__()
        self.features = features

    def initial_memory(self, batch: int) -> Memory:
        return ()

    def forward(self, inputs: Tensor, reset: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return inputs, memory


class LSTMCore(nn.Module):
    """An LSTM whose memory is emptied wherever `reset` says that an episode begins."""

    def __init__(self, features: int, recipe: Recipe) -> None:
        super().__init__()
        self.features = recipe.core_size
        self.cell = nn.LSTMCell(features, recipe.core_size)

    def initial_memory(self, batch: int) -> Memory:
        return torch.zeros(batch, self.features), torch.zeros(batch, self.features)

    def forward(self, inputs: Tensor, reset: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        outputs = []
        keep = (1.0 - reset).unsqueeze(-1)
        for t in range(len(inputs)):
            memory = self.cell(inputs[t], tuple(keep[t] * part for part in memory))
            outputs.append(memory[0])
        return torch.stack(outputs), memory


class ActorCritic(nn.Module):
    """Policy and value of a batch of observations, with the memory they need."""

    def __init__(self, encoder: nn.Module, core: nn.Module, policy: nn.Module, value: nn.Module) -> None:
        super().__init__()
        self.encoder, self.core, self.policy, self.value = encoder, core, policy, value

    def initial_memory(self, batch: int) -> Memory:
        """The memory of `batch` agents that have seen nothing yet."""
        return self.core.initial_memory(batch)

    def forward(self, obs: Tensor, reset: Tensor, memory: Memory) -> tuple[Policy, Tensor, Memory]:
        """Policy and value of each observation, and the memory after the last.

        Args:
            obs: [T, B, ...] observations.
            reset: [T, B] float, 1 where the observation is the first of an episode.
            memory: what was carried from before the first observation, each part [B, size].

        Returns:
            the policy (batch shape [T, B]), the value [T, B] in units of the learner's reward, the new memory.
        """
        features = self.encoder(obs.flatten(0, 1)).unflatten(0, obs.shape[:2])
        features, memory = self.core(features, reset, memory)
        return self.policy(features), self.value(features).squeeze(-1), memory


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """A layer with orthogonal weights (Saxe et al. 2014) and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int, *, gain: float) -> nn.Sequential:
    """Hidden tanh layers and a linear one whose weights start at `gain`."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [linear(inputs, width, math.sqrt(2)), nn.Tanh()]
        inputs = width
    return nn.Sequential(*layers, linear(inputs, outputs, gain))


ENCODERS: dict[str, Callable[[Space], tuple[nn.Module, int]]] = {
    "vector": lambda space: (nn.Flatten(), math.prod(space.shape)),
}
CORES: dict[str, Callable[[int, Recipe], nn.Module]] = {"none": NoCore, "lstm": LSTMCore}
HEADS: dict[type[Space], Callable[..., nn.Module]] = {Discrete: DiscreteHead, Box: ContinuousHead}


def build_model(recipe: Recipe, spaces: Spaces) -> ActorCritic:
    """The network that `recipe` describes, with fresh weights that depend on `recipe.seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        encoder, features = ENCODERS[recipe.encoder](spaces.observation)
        core = CORES[recipe.core](features, recipe)
        policy = HEADS[type(spaces.action)](core.features, spaces.action, recipe)
        value = mlp(core.features, recipe.head_layers, 1, gain=1.0)
        return ActorCritic(encoder, core, policy, value)
