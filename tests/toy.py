"""Toy environments that are solved in seconds, and ones that count, fail or wait."""

import json
import time
from dataclasses import asdict
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import multiprocessing as mp
from torch import nn

from a3c_core.agent import Agent
from a3c_core.checkpoint import save_agent
from a3c_core.envs import Spaces
from a3c_core.model import ActorCritic
from a3c_core.normalization import Normalizer
from a3c_core.recipe import Recipe
from training.log import LOG, Metrics

LENGTH = 4
"""Steps of a cue episode; each is worth at most 1."""


def recipe(**changes: Any) -> Recipe:
    """A small recipe for the toys."""
    small = {"steps": 400, "workers": 1, "envs_per_worker": 4, "n_steps": (5,), "core_size": 16, "head_layers": (16,)}
    return Recipe(**small | changes)


def spaces(*, box: bool, size: int = 2) -> Spaces:
    """What a toy environment shows and takes."""
    action = Box(-1.0, 1.0, (1,), np.float32) if box else Discrete(2)
    return Spaces(Box(-np.inf, np.inf, (size,), np.float32), action)


class Weights(nn.Module):
    """A model that is nothing but a vector of weights."""

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)
        self.normalizer = Normalizer((), recipe())


class Toy(VectorEnv):
    """A batch of environments that start anew within the step that ends an episode."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, count: int, *, box: bool) -> None:
        self.num_envs = count
        self.single_observation_space, self.single_action_space = spaces(box=box)


class Cue(Toy):
    """Shows one of two cues and pays 1 for the action that answers it, less the further away a continuous one is.

    The cue changes at each step; with `memory` there is one cue per episode, shown in the first observation only.
    Where there is a `barrier`, the first step in a worker process waits for the other workers.
    """

    def __init__(self, count: int, *, box: bool, memory: bool, barrier: Barrier | None = None) -> None:
        super().__init__(count, box=box)
        self.box, self.memory, self.barrier = box, memory, barrier

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.steps = np.zeros(self.num_envs, dtype=int)
        self.cues = self._draw()
        return self._look(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self.barrier is not None and mp.parent_process() is not None:
            self.barrier.wait(60.0)
            self.barrier = None
        answers = self.cues - 0.5
        reward = 1.0 - np.abs(actions[:, 0] - answers) if self.box else (actions == self.cues).astype(float)
        self.steps += 1
        over = self.steps >= LENGTH
        self.cues = np.where(over | (not self.memory), self._draw(), self.cues)
        info = {"final_obs": self._look(), "_final_obs": over} if over.any() else {}
        self.steps[over] = 0
        return self._look(), reward, over, np.zeros_like(over), info

    def _draw(self) -> np.ndarray:
        return self.np_random.integers(2, size=self.num_envs)

    def _look(self) -> np.ndarray:
        shown = np.eye(2, dtype=np.float32)[self.cues]
        return shown * (self.steps == 0)[:, None].astype(np.float32) if self.memory else shown


class Count(Toy):
    """Observations that say where they are: (number of the episode, number of the step in it).

    A reward is the number of the step that earned it. Environment b's episodes have `lengths[b]` steps and end as
    `ends[b]` says: "terminated", "truncated" or "both".
    """

    def __init__(self, lengths: tuple[int, ...], ends: tuple[str, ...]) -> None:
        super().__init__(len(lengths), box=False)
        self.lengths, self.ends = np.array(lengths), np.array(ends)
        self.taken: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        self.episodes, self.steps = np.zeros(self.num_envs), np.zeros(self.num_envs)
        return self._look(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self.taken.append(actions)
        self.steps += 1
        reward, over = self.steps.copy(), self.steps >= self.lengths
        info = {"final_obs": self._look(), "_final_obs": over} if over.any() else {}
        self.steps[over] = 0
        self.episodes[over] += 1
        return self._look(), reward, over & (self.ends != "truncated"), over & (self.ends != "terminated"), info

    def _look(self) -> np.ndarray:
        return np.stack([self.episodes, self.steps], axis=1).astype(np.float32)


class Lives(Count):
    """A counting environment that begins with 3 lives and loses one at each second step, as `info["lives"]` tells."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        obs, info = super().reset(seed=seed, options=options)
        return obs, info | {"lives": self._lives()}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated, truncated, info | {"lives": self._lives()}

    def _lives(self) -> np.ndarray:
        return 3 - self.steps.astype(int) // 2


class Points(Lives):
    """A counting environment with lives whose third step loses a point, a reward of -1; no other step pays."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, step, *rest = super().step(actions)
        return obs, -(step == 3).astype(float), *rest


class Broken(Cue):
    """An environment that raises after some steps."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self.np_random.random() < 0.1:
            raise RuntimeError("the pole fell off the table")
        return super().step(actions)


class Stuck(Cue):
    """An environment whose step takes for ever."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        while True:
            time.sleep(1.0)


def make_cue(
    recipe: Recipe, count: int, *, box: bool = False, memory: bool = False, barrier: Barrier | None = None
) -> VectorEnv:
    return Cue(count, box=box, memory=memory, barrier=barrier)


def make_broken(recipe: Recipe, count: int) -> VectorEnv:
    return Broken(count, box=False, memory=False)


def make_stuck(recipe: Recipe, count: int) -> VectorEnv:
    return Stuck(count, box=False, memory=False)


@torch.no_grad()
def greedy_return(model: ActorCritic, *, box: bool, memory: bool, episodes: int = 500) -> float:
    """Mean return of greedy play in a cue environment, whose episodes all have LENGTH steps."""
    envs = Cue(episodes, box=box, memory=memory)
    obs, _ = envs.reset(seed=7)
    carried, total = model.initial_memory(episodes), 0.0
    for _ in range(LENGTH):
        policy, _, carried = model(torch.from_numpy(obs)[None], torch.zeros(1, episodes), carried)
        obs, reward, *_ = envs.step(policy.act(greedy=True)[0].numpy())
        total += reward.mean()
    return total


@torch.no_grad()
def balancer(*, steps: int = 1000) -> Agent:
    """A CartPole agent with weights made by hand, which balances every pole for all 500 steps."""
    agent = Agent.untrained(Recipe(head_layers=()))
    (logits,) = agent.model.policy.logits
    logits.weight.copy_(torch.tensor([[-0.1, -0.3, -3.0, -1.0], [0.1, 0.3, 3.0, 1.0]]))
    return agent._replace(steps=steps)


def beginner(*, steps: int = 1000) -> Agent:
    """A CartPole agent that drops each pole within a dozen steps: its games are quick to play and to film."""
    return Agent.untrained(Recipe(head_layers=()))._replace(steps=steps)


def run_of(directory, agent):
    """What training leaves behind: a checkpoint and a log, whose last moment is after half an hour."""
    save_agent(directory, agent)
    moment = Metrics(seconds=1800.0).progress(agent.steps, goal=agent.steps, learning_rate=0.0)
    (directory / LOG).write_text(json.dumps(asdict(moment)) + "\n")
    return directory
