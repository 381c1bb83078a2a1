"""One game to watch: step by step (playback_steps), as a whole (play), as pictures (render)."""

import copy
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch

from a3c_core.agent import Agent
from a3c_core.envs import Protocol
from a3c_core.evaluation import check_seeds, environment_value
from a3c_core.model import Memory, VectorEncoder
from playback.perturbation import Perturbation, Perturbed
from playback.takeover import Hand, Takeover, replayed


class Episode(NamedTuple):
    """One game of T steps, as plain arrays; `render` draws its pictures."""

    seed: int
    protocol: Protocol
    actions: np.ndarray
    """[T] int64 or [T, dimensions] float32."""
    policies: np.ndarray
    """[T, actions] probabilities, or [T, 2 * dimensions] means and standard deviations."""
    values: np.ndarray
    """[T] the discounted sum of rewards that the agent expected from here on, in the environment's units; where its
    recipe clips rewards or ends returns with a life, of such rewards, up to there."""
    rewards: np.ndarray
    """[T] the environment's own rewards."""
    perturbations: tuple[Perturbation, ...] = ()
    """What was done to the game from outside."""

    @property
    def total(self) -> float:
        """The game's return: the undiscounted sum of its rewards."""
        return float(self.rewards.sum())

    @property
    def outcome(self) -> str:
        """Seed and return in words, for a video's comment."""
        return f"seed {self.seed}, return {self.total:g}"


NOBODY = replayed(())
"""The hand that leaves every step to the agent."""


class PlaybackStep(NamedTuple):
    """One step of a game under way."""

    action: np.ndarray
    """A number, or float32 [dimensions]."""
    policy: np.ndarray
    """[actions] probabilities, or [2 * dimensions] means and standard deviations."""
    value: float
    """As `Episode.values`."""
    reward: float
    """The environment's own."""
    pictures: list[np.ndarray]
    """What was shown since the step before, each uint8 [height, width, 3]; the first step's begin with the start."""
    over: bool
    """Whether the game ends with this step."""
    obs: np.ndarray
    """What the agent saw when it chose."""
    memory: Memory | None
    """What it remembered then; None at the start."""


def playback_steps(
    agent: Agent,
    seed: int,
    *,
    greedy: bool = True,
    protocol: Protocol = "classic",
    perturbations: tuple[Perturbation, ...] = (),
    hand: Hand = NOBODY,
    watched: bool = False,
) -> Iterator[PlaybackStep]:
    """Plays one game step by step. Agent, seed, `greedy`, protocol, perturbations and what the hand does determine it:
    where that plays, the agent looks on, and draws its action all the same.

    Only where it is `watched` are there pictures. Raises ValueError for a seed that is no scoring seed.
    """
    check_seeds([seed])
    vectors = isinstance(agent.model.encoder, VectorEncoder)
    agent = in_double_precision(agent) if vectors else agent
    generator = torch.Generator().manual_seed(seed)
    with closing(perturbed_env(agent, "rgb_array_list" if watched else None, protocol, perturbations, hand)) as env:
        obs, _ = env.reset(seed=seed)
        memory, over, last = None, False, None
        while not over:
            seen, before = np.asarray(obs), memory
            with one_thread():
                shown = seen.astype(np.float64) if vectors else seen
                policy, value, memory = agent.policy_and_value(shown[None], memory)
                action = policy.act(greedy=greedy, generators=[generator])[0, 0].numpy()
            if last:
                yield with_pictures(last, env, watched=watched)  # drawn while the agent thought of its next action
            obs, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            described = policy.parameters()[0, 0].numpy()
            expected = environment_value(float(value[0]), agent.recipe, unit=agent.model.normalizer.reward_unit)
            last = PlaybackStep(info["action"], described, expected, float(reward), [], over, seen, before)
        yield with_pictures(last, env, watched=watched)


def in_double_precision(agent: Agent) -> Agent:
    """The agent with a network that reads float64 and computes in it.

    In float32 two implementations of one network differ in the last digit, which makes another game of a long one. In
    float64 the browser's copy (ui/site/simulation.js) plays whole games as Python does.
    """
    return agent._replace(model=copy.deepcopy(agent.model).double())


def with_pictures(step: PlaybackStep, env: gym.Env, *, watched: bool) -> PlaybackStep:
    """The step, with what was drawn since the one before where somebody watches."""
    return step._replace(pictures=list(env.render())) if watched else step


def perturbed_env(
    agent: Agent,
    render_mode: str | None,
    protocol: Protocol,
    perturbations: tuple[Perturbation, ...],
    hand: Hand = NOBODY,
) -> Perturbed:
    """The environment of one game, with what is done to it."""
    return Perturbed(agent.make_env(render_mode, protocol), agent.recipe.env, perturbations, hand)


def play(
    agent: Agent,
    seed: int,
    *,
    greedy: bool = True,
    protocol: Protocol = "classic",
    perturbations: tuple[Perturbation, ...] = (),
    takeovers: tuple[Takeover, ...] = (),
    max_steps: int = 100_000,
    progress: Callable[[int], None] = lambda steps: None,
) -> Episode:
    """Plays one game, as `playback_steps` does, for `max_steps` at most.

    `progress` is called with the number of steps after each step. Raises ValueError for a seed that is no scoring seed.
    """
    actions, policies, values, rewards = [], [], [], []
    rules = {"greedy": greedy, "protocol": protocol, "perturbations": perturbations, "hand": replayed(takeovers)}
    with closing(playback_steps(agent, seed, **rules)) as game:
        for step in islice(game, max_steps):
            actions.append(step.action)
            policies.append(step.policy)
            values.append(step.value)
            rewards.append(step.reward)
            progress(len(actions))
    return Episode(seed, protocol, *(np.array(part) for part in (actions, policies, values, rewards)), perturbations)


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets torch compute with a single thread: several can't share the work of one observation, and where the cores
    are busy with something else they wait for each other, fifty times longer than the work takes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class RenderedEpisode(NamedTuple):
    """The pictures of a game, to be read once."""

    pictures: Iterator[np.ndarray]
    """Each [height, width, 3] uint8, or 4 with opacity. Drawn as they are read: all of a game would be gigabytes."""
    frames_per_second: int
    """Speed at which they are meant to be watched."""
    pixel: tuple[int, int] = (1, 1)
    """Rows and columns of the screen that one pixel takes: Atari's are wider than high."""


def render(agent: Agent, episode: Episode) -> RenderedEpisode:
    """Plays the actions of a game once more, and draws it."""
    env = perturbed_env(agent, "rgb_array_list", episode.protocol, episode.perturbations)

    def pictures() -> Iterator[np.ndarray]:
        with closing(env):
            env.reset(seed=episode.seed)
            yield from env.render()
            for action in episode.actions:
                env.step(action)
                yield from env.render()

    return RenderedEpisode(pictures(), env.metadata.get("render_fps", 30), env.metadata.get("pixel", (1, 1)))
