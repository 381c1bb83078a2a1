"""A Recipe is every number that shapes a training: a flat, frozen, validated dataclass that reads and writes JSON."""

import json
from dataclasses import asdict, fields, replace
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

Count = Annotated[int, Field(ge=1, le=4096)]
Width = Annotated[int, Field(ge=1, le=1024)]
Steps = Annotated[int, Field(ge=1, le=10**10)]
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0.01, le=100)]
FIXED_IN_A_RUN = frozenset(
    {
        "env", "full_action_space", "layer_norm", "core", "core_size", "head_layers", "initial_std",
        "optimizer", "share_statistics", "normalize_observations", "normalize_rewards", "schedule",
        "sampling_temperature",
    }
)  # fmt: skip
"""Fields that shape the network, the optimizer's state or the games after training. A run keeps them from its first
step to its last."""
WIDER = {"a3c": "a3c_wide"}
"""The encoders that a run can change on its way, and what to: see `training.widen`."""
Change = bool | int | float | str | None | tuple[int | float, ...]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Phase:
    """A change of recipe in the middle of a run."""

    at: Annotated[int, Field(ge=1, le=10**10)]
    """Steps of the whole run after which it begins."""
    changes: Annotated[dict[str, Change], Field(max_length=64)]
    """New values of fields of the recipe; the others stay as they are."""
    fresh_optimizer: bool = False
    """Whether the optimizer's state starts again from nothing. It does too where the encoder changes."""

    @property
    def begins_optimizer(self) -> bool:
        """Whether the optimizer's state starts again from nothing, for either reason."""
        return self.fresh_optimizer or "encoder" in self.changes


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Recipe:
    """Every number that shaped a run. A step is one decision of one agent in one environment."""

    env: Annotated[str, Field(max_length=100)] = "CartPole-v1"
    """Gymnasium id of the environment: one that Gymnasium or ale-py ships, or one of your own (see
    `a3c_core.envs.register_env`)."""
    sticky_actions: Annotated[tuple[Fraction, ...], Field(min_length=1, max_length=256)] = (0.0,)
    """Atari: probability that the emulator repeats the previous action instead of the new one, frame by frame
    (Machado et al. 2018). Of several numbers worker `rank` takes number `rank` modulo how many there are, so that the
    agent learns with and without. This is for training; scores have a protocol of their own."""
    full_action_space: bool = False
    """Atari: offer all 18 actions of the joystick, not only those that the game uses."""
    life_loss_ends_return: bool = False
    """Atari: the return stops at the loss of a life, as if the episode ended there; the game goes on."""
    reward_ends_return: bool = False
    """The return stops at each reward that isn't 0, as if the episode ended there. For games that are played for
    points, such as Pong: with gamma near 1 the agent maximises its chance to win each point. Otherwise it maximises
    points per step, and takes risks to be quick."""
    stall_ends_return: Steps | None = None
    """The return stops after so many steps in a row without a reward, as if the episode ended there; the game goes on.
    For games where play can go round in circles, such as Breakout, when staying alive is worth something."""
    stall_earns_nothing: Steps | None = None
    """`reward_shift` is no longer added after so many steps in a row without a reward, until the next one. For the same
    games: the agent gains nothing by a circle and still has a life to lose. Atari: so that the agent sees what it will
    earn (Pardo et al. 2018, "Time Limits in Reinforcement Learning"), a white bar in the two top rows of each
    observation is as long as the part of these steps that has passed, in training and wherever the agent plays."""
    seed: Annotated[int, Field(ge=0, lt=10**9)] = 0
    """Seeds the first weights, the environments and the sampling of actions."""
    steps: Steps = 500_000
    """Steps of all workers together until the run ends."""

    workers: Annotated[int, Field(ge=1, le=256)] = 2
    """Asynchronous worker processes. Each computes in one thread, and its share of the cores steps its Atari games.
    One worker is A2C."""
    envs_per_worker: Count = 16
    """Environments that each worker steps together, as one batch. One is the paper's A3C."""
    n_steps: Annotated[tuple[Count, ...], Field(min_length=1, max_length=256)] = (32,)
    """Steps of each environment between updates (t_max in the paper). Several numbers are a
    distributed step size: worker `rank` takes number `rank` modulo how many there are."""

    encoder: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=50)] = "vector"
    """What turns an observation into features: vector passes it on unchanged; a3c is the paper's network for frames
    (convolutions of 16 and 32 filters, 256 units), a3c_wide has twice as many of each (32, 64; 512), nature is the
    larger one of Mnih et al. 2015 (32, 64, 64; 512), small is for frames of few pixels (16 filters of 3 x 3, 128
    units), residual has max-pooling and two residual blocks (16 and 32 filters, 256 units: Espeholt et al. 2018); or
    one that you registered with `a3c_core.model.register_encoder`."""
    pixel_shift: Annotated[float, Field(ge=-255, le=0)] = 0.0
    """Added to each pixel (0 to 255) before it is scaled. A grey background must become 0 (Pong's is 87). Otherwise it
    is one large input common to all filters, and the first errors of the value push them all until their ReLUs die."""
    pixel_scale: Positive = 1 / 255
    """Multiplies each shifted pixel."""
    layer_norm: bool = False
    """Normalise the encoder's last layer before its ReLU (Ba et al. 2016): its units can't all die at once."""
    core: Literal["none", "lstm"] = "none"
    """Memory between the encoder and the heads."""
    core_size: Width = 64
    """Units of the LSTM, where there is one."""
    head_layers: Annotated[tuple[Width, ...], Field(max_length=4)] = (64, 64)
    """Hidden tanh layers of the policy's and of the value's own head."""
    initial_std: Positive = 1.0
    """Standard deviation of a continuous policy before training, in units of half the action's range."""

    gamma: Fraction = 0.99
    """Discount of a reward that comes one step later."""
    gae_lambda: Fraction = 0.95
    """Lambda of generalized advantage estimation; 1 gives the paper's n-step returns."""
    vtrace: bool = False
    """Learn with the newest weights, and correct the targets for the difference to the weights that acted (V-trace,
    Espeholt et al. 2018). Use it where many workers or long rollouts make gradients stale. Each pass costs one more
    forward pass over the rollout."""
    passes: Annotated[int, Field(ge=1, le=100)] = 1
    """How often the learner goes over each rollout (epochs in Schulman et al. 2017). More than one needs clip_ratio."""
    minibatches: Annotated[int, Field(ge=1, le=1024)] = 1
    """Parts that each pass divides the rollout into at random; each part gives one gradient. A recurrent core keeps
    whole sequences together, so there it can be at most envs_per_worker."""
    clip_ratio: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Bound on how far the probability of an action may move from what it was when the action was taken, as a ratio
    (epsilon in Schulman et al. 2017, equation 7). None is the paper's plain policy gradient."""
    normalize_advantages: bool = True
    """Give each rollout's advantages mean 0 and standard deviation 1 before they weigh the policy's gradient.
    An advantage that is alone in its rollout stays as it is."""
    value_cost: NonNegative = 0.5
    """Weight of the value's squared error in the loss."""
    entropy_cost: NonNegative = 0.01
    """Weight of the policy's entropy (beta in the paper): higher explores longer."""
    normalize_observations: bool = False
    """Give each element of the observation mean 0 and standard deviation 1, by statistics that all workers share."""
    normalize_rewards: bool = False
    """Divide rewards by the standard deviation of their running discounted sum, which all workers share."""
    reward_shift: Number = 0.0
    """Added to each reward before it is scaled. Scores are always of the true reward."""
    reward_scale: Positive = 1.0
    """Multiplies each shifted reward."""
    reward_clip: Positive | None = None
    """Bound of the learner's reward on both sides, after shift and scale."""

    optimizer: Literal["adam", "amsgrad", "rmsprop"] = "adam"
    """The optimizer that all workers share; rmsprop is the paper's, with epsilon inside the root."""
    learning_rate: Positive = 5e-3
    """Step size of the optimizer at the first step."""
    learning_rate_decay: Literal["linear", "none"] = "linear"
    """How the learning rate falls: linearly to 0 at the last step, or not at all."""
    adam_betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    """Decay of Adam's first and second moment per update."""
    rmsprop_alpha: Fraction = 0.99
    """Decay of RMSProp's squared gradient per update."""
    epsilon: Positive = 1e-5
    """The optimizer's small constant against division by zero."""
    average_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Keep an average of the shared weights, which decays by this factor with each update (Polyak averaging). A phase
    can begin it or change its factor, and from then on it goes on to the end of the run."""
    max_gradient_norm: Positive | None = 0.5
    """Longer gradients (global 2-norm) are scaled down to this length; none leaves them as they are."""
    share_statistics: bool = True
    """Share the optimizer's moments between workers, as the paper found best; else each worker has its own."""
    handover: Literal["lock-free", "lock", "queue", "synchronous"] = "lock-free"
    """How gradients get to the shared weights: each worker writes them without waiting for the others (Hogwild), or
    under a lock, or puts its gradient on a queue that one thread works off; or all wait for each other, and one update
    is made with the mean of their gradients (A2C with several processes)."""

    schedule: Annotated[tuple[Phase, ...], Field(max_length=256)] = ()
    """Phases of the run: what changes after how many steps. `steps` ends the run in the last phase; before that it is
    only where the learning rate of the phase reaches 0."""

    sampling_temperature: Temperature = 1.0
    """Temperature of the policy where an agent plays with sampled actions, in scores and on the page: probabilities are
    raised to the power of 1 / temperature, then normalised. Below 1 likely actions become more likely. Training always
    samples at 1."""

    precision: Literal["float32", "bfloat16"] = "float32"
    """Numbers that the workers' encoders compute with; the shared weights are float32. bfloat16 is meant for frames:
    two to three times faster on processors that support it; on others float32 is used instead."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where each worker's network is; cuda takes the GPUs in turn, as A3G does (rl_a3c_pytorch)."""
    shared_device: Literal["cpu", "cuda"] = "cpu"
    """Where the shared weights and the optimizer's state are; with cuda no update goes through the CPU."""

    def __post_init__(self) -> None:
        if self.passes > 1 and self.clip_ratio is None:
            raise ValueError("more than one pass over a rollout needs a clip_ratio, for example 0.2")
        if self.core != "none" and self.minibatches > self.envs_per_worker:
            raise ValueError("a recurrent core learns from whole sequences: choose minibatches <= envs_per_worker")

    def of_worker(self, rank: int) -> "Recipe":
        """The recipe as worker `rank` has it: with one number each for the rollout length and the sticky actions."""
        n_steps, sticky = (values[rank % len(values)] for values in (self.n_steps, self.sticky_actions))
        return replace(self, n_steps=(n_steps,), sticky_actions=(sticky,))

    @property
    def off_policy(self) -> bool:
        """Whether the loss asks how likely each action was when it was taken."""
        return self.clip_ratio is not None or self.vtrace

    def learning_rate_at(self, steps: int) -> float:
        """The learning rate after `steps` steps of the run."""
        left = max(0.0, 1.0 - steps / self.steps)
        return self.learning_rate * {"linear": left, "none": 1.0}[self.learning_rate_decay]

    @model_validator(mode="after")
    def _check_schedule(self) -> "Recipe":
        for earlier, later in pairwise(self.schedule):
            if later.at <= earlier.at:
                raise ValueError(f"the phase at step {later.at} must begin after the one at step {earlier.at}")
        before = self.phase(0) if self.schedule else self
        for phase in self.schedule:
            before = _changed(before, phase)
        return self

    def phase(self, number: int) -> "Recipe":
        """The recipe in force once the first `number` phases have begun; it has no schedule of its own."""
        changes: dict[str, Any] = {}
        for phase in self.schedule[:number]:
            changes |= phase.changes
        return replace(self, schedule=(), **changes)

    def phases_begun(self, steps: int) -> int:
        """How many phases have begun after `steps` steps."""
        return sum(phase.at <= steps for phase in self.schedule)

    def at(self, steps: int) -> "Recipe":
        """The recipe in force after `steps` steps of the run."""
        return self.phase(self.phases_begun(steps))

    @property
    def last_step(self) -> int:
        """Where the run ends: at the last phase's `steps`."""
        return self.phase(len(self.schedule)).steps


@cache
def _strict() -> TypeAdapter[Recipe]:
    return TypeAdapter(Recipe)


def _changed(recipe: Recipe, phase: Phase) -> Recipe:
    """The recipe once a phase has begun. Raises ValueError for a change that no run can make."""
    where = f"the phase at step {phase.at}"
    for name, value in phase.changes.items():
        if name not in {field.name for field in fields(Recipe)} - FIXED_IN_A_RUN:
            raise ValueError(f"{where} changes {name[:100]!r}, which stays the same in a run")
        if name == "encoder" and value not in (recipe.encoder, WIDER.get(recipe.encoder)):
            raise ValueError(f"{where} changes the encoder to {str(value)[:100]!r}: only a3c can become a3c_wide")
        if name == "average_decay" and value is None and recipe.average_decay is not None:
            raise ValueError(f"{where} ends the average of the weights, which goes on once it has begun")
        if name == "workers" and not recipe.share_statistics and value != recipe.workers:
            raise ValueError(f"{where} changes the workers, each of which has an optimizer of its own")
    try:
        return _strict().validate_json(json.dumps(asdict(recipe) | phase.changes), strict=True)
    except ValidationError as error:
        raise ValueError(f"{where} is not what it should be: {mistakes(error, 'recipe')}") from None


def mistakes(error: ValidationError, whole: str) -> str:
    """What is wrong with which fields, on one line; `whole` stands where no single field is to blame."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors()
    )


def meaning(field: str) -> str:
    """What a field of the recipe means, as its docstring says."""
    return " ".join((Recipe.__pydantic_fields__[field].description or "").split())
