"""The network: encoder -> core -> policy and value heads. All variation is in the tables at the end.

Every input is time-major, [T, B, ...]: T steps of B environments. Acting is T=1, learning T=n, the same call.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from torch import Tensor, nn
from torch.distributions import Independent, Normal
from torch.nn import functional

from a3c_core.envs import Spaces, check_picklable
from a3c_core.normalization import Normalizer
from a3c_core.recipe import Recipe

Generators = Sequence[torch.Generator]
"""Where drawn actions come from: one for each of B environments."""

Memory = tuple[Tensor, ...]
"""What a recurrent core carries from step to step: tensors [B, size]; empty for a feed-forward one."""


class DiscretePolicy:
    """Probabilities of a finite number of actions; actions are int64 [T, B]."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = functional.log_softmax(logits, -1)
        """Each action's log-probability, [T, B, actions]."""

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability of the actions, [T, B]."""
        return self.logits.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, [T, B]."""
        return -(self.parameters() * self.logits).sum(-1)

    def act(self, *, greedy: bool = False, generators: Generators | None = None) -> Tensor:
        """The likeliest action, or one drawn from the policy, [T, B]."""
        if greedy:
            return self.logits.argmax(-1)
        if generators is None:  # the Gumbel-max trick, in less than half the time of torch.multinomial
            return (self.logits - torch.empty_like(self.logits).exponential_().log()).argmax(-1)
        probs = self.parameters()
        return torch.cat([torch.multinomial(probs[:, b], 1, generator=each) for b, each in enumerate(generators)], 1)

    def at_temperature(self, temperature: float) -> "DiscretePolicy":
        """The policy with each probability raised to the power of 1 / temperature, and normalised."""
        return DiscretePolicy(self.logits / temperature)

    def parameters(self) -> Tensor:
        """Each action's probability, [T, B, actions]."""
        return self.logits.softmax(-1)


class MultiDiscretePolicy:
    """Several independent choices, each among a number of its own; actions are int64 [T, B, choices]."""

    def __init__(self, logits: Tensor, counts: tuple[int, ...]) -> None:
        self.choices = [DiscretePolicy(part) for part in logits.split(counts, -1)]

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability of all choices together, [T, B]: the sum of each one's."""
        each = zip(self.choices, actions.unbind(-1), strict=True)
        return torch.stack([choice.log_prob(action) for choice, action in each]).sum(0)

    def entropy(self) -> Tensor:
        """Entropy in nats, [T, B]: the sum of each choice's."""
        return torch.stack([choice.entropy() for choice in self.choices]).sum(0)

    def act(self, *, greedy: bool = False, generators: Generators | None = None) -> Tensor:
        """The likeliest action, or one drawn from the policy, [T, B, choices]."""
        return torch.stack([choice.act(greedy=greedy, generators=generators) for choice in self.choices], -1)

    def at_temperature(self, temperature: float) -> "MultiDiscretePolicy":
        """The policy with each choice's probabilities as `DiscretePolicy.at_temperature`."""
        logits = [choice.logits for choice in self.choices]
        return MultiDiscretePolicy(torch.cat(logits, -1) / temperature, tuple(part.shape[-1] for part in logits))

    def parameters(self) -> Tensor:
        """Each choice's probabilities, one choice after the other, [T, B, sum of the counts]."""
        return torch.cat([choice.parameters() for choice in self.choices], -1)


class ContinuousPolicy(Independent):
    """A normal distribution for each number of the action; actions are float32 [T, B, *shape of the action]."""

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__(Normal(mean, std, validate_args=False), mean.dim() - 2, validate_args=False)

    def act(self, *, greedy: bool = False, generators: Generators | None = None) -> Tensor:
        """The mean action, or one drawn from the policy, [T, B, *shape of the action]."""
        if greedy:
            return self.mean
        if generators is None:
            return torch.normal(self.mean, self.stddev)
        pairs = zip(self.mean.unbind(1), self.stddev.unbind(1), generators, strict=True)
        return torch.stack([torch.normal(mean, std, generator=each) for mean, std, each in pairs], 1)

    def at_temperature(self, temperature: float) -> "ContinuousPolicy":
        """The policy with its density raised to the power of 1 / temperature, and normalised: another deviation."""
        return ContinuousPolicy(self.mean, self.stddev * temperature**0.5)

    def parameters(self) -> Tensor:
        """Mean and standard deviation of each number of the action, [T, B, 2 * numbers]."""
        return torch.cat([part.reshape(*self.batch_shape, -1) for part in (self.mean, self.stddev)], -1)


Policy = DiscretePolicy | MultiDiscretePolicy | ContinuousPolicy


class DiscreteHead(nn.Module):
    def __init__(self, features: int, space: Discrete, recipe: Recipe) -> None:
        super().__init__()
        self.logits = mlp(features, recipe.head_layers, int(space.n), gain=0.01)

    def forward(self, features: Tensor) -> DiscretePolicy:
        return DiscretePolicy(self.logits(features))


class MultiDiscreteHead(nn.Module):
    def __init__(self, features: int, space: MultiDiscrete, recipe: Recipe) -> None:
        super().__init__()
        self.counts = tuple(int(count) for count in space.nvec)
        self.logits = mlp(features, recipe.head_layers, sum(self.counts), gain=0.01)

    def forward(self, features: Tensor) -> MultiDiscretePolicy:
        return MultiDiscretePolicy(self.logits(features), self.counts)


class ContinuousHead(nn.Module):
    def __init__(self, features: int, space: Box, recipe: Recipe) -> None:
        super().__init__()
        self.mean = mlp(features, recipe.head_layers, math.prod(space.shape), gain=0.01)
        self.log_std = nn.Parameter(torch.full(space.shape, math.log(recipe.initial_std)))

    def forward(self, features: Tensor) -> ContinuousPolicy:
        mean = self.mean(features).reshape(*features.shape[:-1], *self.log_std.shape)
        return ContinuousPolicy(mean, self.log_std.exp().expand_as(mean))


class VectorEncoder(nn.Flatten):
    """Hands a vector on as it is."""

    def __init__(self, space: Box, recipe: Recipe) -> None:
        super().__init__()
        self.features = math.prod(space.shape)

    @staticmethod
    def reads(space: Box) -> bool:
        """Whether it can read such observations."""
        return len(space.shape) == 1


class PixelConv2d(nn.Conv2d):
    """The first convolution: takes pixels from 0 to 255, which it shifts and scales."""

    def __init__(
        self, channels: int, filters: int, kernel: int, stride: int, recipe: Recipe, *, pooled: bool = False
    ) -> None:
        super().__init__(channels, filters, kernel, stride)
        self.shift, self.scale = recipe.pixel_shift, recipe.pixel_scale
        self.pooled = pooled

    def forward(self, frames: Tensor) -> Tensor:
        dtype = self.weight.dtype
        # On a CPU max-pooling, and the backward pass in float32, are much faster with the channels last.
        channels_last = self.pooled or (torch.is_grad_enabled() and dtype == torch.float32)
        memory_format = torch.channels_last if channels_last else torch.preserve_format
        pixels = frames.to(dtype, copy=bool(self.shift), memory_format=memory_format)
        if self.shift:
            pixels.add_(self.shift)  # in place, hence the copy
        return functional.conv2d(pixels, self.weight * self.scale, self.bias, self.stride)


class FrameEncoder(nn.Sequential):
    """Convolutions over a stack of frames and a fully connected layer, each with a ReLU."""

    convolutions: tuple[tuple[int, int, int], ...]
    """Filters, kernel size and stride of each."""
    features: int
    """Units of the fully connected layer."""

    def __init__(self, space: Box, recipe: Recipe) -> None:
        channels, *size = space.shape
        layers, filters = self.convolutional(channels, recipe)
        units = filters * math.prod(self.side_after(side) for side in size)
        layers += [nn.Flatten(), orthogonal(nn.Linear(units, self.features), math.sqrt(2))]
        layers += [nn.LayerNorm(self.features)] if recipe.layer_norm else []
        super().__init__(*layers, nn.ReLU())

    def convolutional(self, channels: int, recipe: Recipe) -> tuple[list[nn.Module], int]:
        """The layers before the fully connected one, and the filters of the last."""
        layers: list[nn.Module] = []
        for filters, kernel, stride in self.convolutions:
            shape = (channels, filters, kernel, stride)
            convolution = nn.Conv2d(*shape) if layers else PixelConv2d(*shape, recipe)
            layers += [orthogonal(convolution, math.sqrt(2)), nn.ReLU()]
            channels = filters
        return layers, channels

    @classmethod
    def side_after(cls, side: int) -> int:
        """Height or width after the convolutions; 0 or less where the frame is too small for them."""
        for _, kernel, stride in cls.convolutions:
            side = (side - kernel) // stride + 1
        return side

    @classmethod
    def reads(cls, space: Box) -> bool:
        """Whether it can read such observations: frames [channels, height, width] that are large enough."""
        return len(space.shape) == 3 and cls.side_after(min(space.shape[1:])) > 0

    def forward(self, frames: Tensor) -> Tensor:
        """Features float32 [N, features] of frames [N, channels, height, width]; computes in its weights' type."""
        return super().forward(frames).float()


class A3CEncoder(FrameEncoder):
    """The paper's network (Mnih et al. 2016, section 8; Mnih et al. 2013)."""

    convolutions = ((16, 8, 4), (32, 4, 2))
    features = 256


class WideEncoder(FrameEncoder):
    """The paper's network with twice the filters and units: what `training.widen` makes of an A3CEncoder."""

    convolutions = ((32, 8, 4), (64, 4, 2))
    features = 512


class NatureEncoder(FrameEncoder):
    """The network of Mnih et al. 2015."""

    convolutions = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    features = 512


class SmallEncoder(FrameEncoder):
    """For frames of few pixels, such as a board's: the network of Young and Tian 2019 ("MinAtar")."""

    convolutions = ((16, 3, 1),)
    features = 128


class ResidualBlock(nn.Module):
    """Two convolutions, each after a ReLU, whose output is added to what they read (He et al. 2016)."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(),
            orthogonal(nn.Conv2d(filters, filters, 3, padding=1), math.sqrt(2)),
            nn.ReLU(),
            orthogonal(nn.Conv2d(filters, filters, 3, padding=1), math.sqrt(2)),
        )

    def forward(self, maps: Tensor) -> Tensor:
        return maps + self.layers(maps)


class ResidualEncoder(FrameEncoder):
    """A small relative of the deep network of Espeholt et al. 2018 (figure 3): max-pooling and two residual blocks."""

    features = 256

    def convolutional(self, channels: int, recipe: Recipe) -> tuple[list[nn.Module], int]:
        """The layers before the fully connected one, and the filters of the last."""
        return [
            orthogonal(PixelConv2d(channels, 16, 4, 2, recipe, pooled=True), math.sqrt(2)),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.ReLU(),
            orthogonal(nn.Conv2d(16, 32, 3, padding=1), math.sqrt(2)),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            ResidualBlock(32),
            ResidualBlock(32),
            nn.ReLU(),
        ], 32

    @classmethod
    def side_after(cls, side: int) -> int:
        """Height or width after the two max-pools; 0 or less where the frame is too small for them."""
        side = (side - 4) // 2 + 1
        for _ in range(2):
            side = side // 2 if side >= 3 else 0  # (side - 3) / 2 + 1, rounded up
        return side


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
        empty = self.cell.weight_hh.new_zeros(batch, self.features)
        return empty, empty

    def forward(self, inputs: Tensor, reset: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        outputs = []
        keep = (1.0 - reset).unsqueeze(-1)
        for t in range(len(inputs)):
            memory = self.cell(inputs[t], tuple(keep[t] * part for part in memory))
            outputs.append(memory[0])
        return torch.stack(outputs), memory


class ActorCritic(nn.Module):
    """Policy and value of a batch of observations, with the memory they need."""

    def __init__(
        self, normalizer: Normalizer, encoder: nn.Module, core: nn.Module, policy: nn.Module, value: nn.Module
    ) -> None:
        super().__init__()
        self.normalizer = normalizer
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
        features = self.encoder(self.normalizer(obs).flatten(0, 1)).unflatten(0, obs.shape[:2])
        features, memory = self.core(features, reset, memory)
        return self.policy(features), self.value(features).squeeze(-1), memory


Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def orthogonal(layer: Layer, gain: float) -> Layer:
    """The layer with orthogonal weights (Saxe et al. 2014) and zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int, *, gain: float) -> nn.Sequential:
    """Hidden tanh layers and a linear one whose weights start at `gain`."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [orthogonal(nn.Linear(inputs, width), math.sqrt(2)), nn.Tanh()]
        inputs = width
    return nn.Sequential(*layers, orthogonal(nn.Linear(inputs, outputs), gain))


MakeEncoder = Callable[[Box, Recipe], nn.Module]
"""Makes an encoder for an observation space. The module takes [N, ...] observations, returns float32 [N, features], and
has an attribute `features`."""

ENCODERS: dict[str, MakeEncoder] = {
    "vector": VectorEncoder,
    "a3c": A3CEncoder,
    "a3c_wide": WideEncoder,
    "nature": NatureEncoder,
    "small": SmallEncoder,
    "residual": ResidualEncoder,
}
CORES: dict[str, Callable[[int, Recipe], nn.Module]] = {"none": NoCore, "lstm": LSTMCore}
HEADS: dict[type[Space], Callable[..., nn.Module]] = {
    Discrete: DiscreteHead,
    MultiDiscrete: MultiDiscreteHead,
    Box: ContinuousHead,
}

REGISTERED_ENCODERS: dict[str, MakeEncoder] = {}
"""Encoders of the user's own, by their names in recipes."""


def register_encoder(name: str, make: MakeEncoder) -> None:
    """Makes `name` an encoder that recipes can ask for, in this process and in the workers of its trainings.

        def two_layers(space: Box, recipe: Recipe) -> nn.Module: ...

        register_encoder("two_layers", two_layers)

    An agent with such an encoder can be loaded only where the encoder is registered. Raises ValueError for the name of
    a built-in encoder, and where `make` can't be pickled.
    """
    if name in ENCODERS:
        raise ValueError(f"{name!r} is a built-in encoder: choose another name")
    check_picklable(make, f"the maker of the encoder {name!r}")
    REGISTERED_ENCODERS[name] = make


def fitting_encoders(space: Space) -> tuple[str, ...]:
    """The built-in encoders that can read such observations."""
    return tuple(name for name, encoder in ENCODERS.items() if encoder.reads(space))


def build_model(recipe: Recipe, spaces: Spaces) -> ActorCritic:
    """The network that `recipe` describes, with fresh weights that depend on `recipe.seed` alone.

    Raises ValueError where its encoder is not registered or can't read what the environment shows, or where no head
    gives the actions that the environment takes.
    """
    make = (ENCODERS | REGISTERED_ENCODERS).get(recipe.encoder)
    if make is None:
        raise ValueError(
            f"unknown encoder {recipe.encoder!r}: choose one of {', '.join(ENCODERS | REGISTERED_ENCODERS)}, or import "
            "the module that registers it (--import MODULE on the command line)"
        )
    fitting = fitting_encoders(spaces.observation)
    if recipe.encoder in ENCODERS and recipe.encoder not in fitting:
        raise ValueError(
            f"the encoder {recipe.encoder} can't read {recipe.env}: choose "
            + (" or ".join(fitting) or f"one of your own for observations of shape {spaces.observation.shape}")
        )
    if type(spaces.action) not in HEADS:
        raise ValueError(f"{recipe.env} takes actions that no policy here gives: {spaces.action}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        encoder = make(spaces.observation, recipe)
        core = CORES[recipe.core](encoder.features, recipe)
        policy = HEADS[type(spaces.action)](core.features, spaces.action, recipe)
        value = mlp(core.features, recipe.head_layers, 1, gain=1.0)
        return ActorCritic(Normalizer(spaces.observation.shape, recipe), encoder, core, policy, value)
