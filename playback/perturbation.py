"""Perturbations: pushes and forced actions that show how an agent recovers. A perturbed game repeats exactly."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete

from a3c_core.envs import spaces_of
from a3c_core.recipe import Recipe
from playback.takeover import Hand


class Perturbation(NamedTuple):
    """Something that is done to a game just before one of its steps."""

    step: int
    kind: str
    """One of `perturbations_of` the game."""


HELD_STEPS = 8
"""Steps for which an action is taken in the agent's place: half a second of Atari, so that it is felt."""
WALKER_PUSH = 2.0
"""Metres a second that a push gives the walker's hull."""
WALKER_SIGHT = 0.3 * (600 / 30) / 50
"""What the walker sees of 1 m/s: BipedalWalker scales by the width of its picture and its frames a second."""
DIRECTIONS = {"left": -1.0, "right": 1.0}
"""Where a push goes on the picture."""


def _push_pole(game: gym.Env, obs: np.ndarray, direction: float) -> np.ndarray:
    """Adds 0.7 rad/s, which a good agent can just catch; a second push at once, or 1 rad/s, throws the pole."""
    game.state = game.state + np.array([0.0, 0.0, 0.0, 0.7 * direction])
    return game.state.astype(np.float32)


def _push_rod(game: gym.Env, obs: np.ndarray, direction: float) -> np.ndarray:
    """Adds 2 rad/s, enough to topple a rod that stands, so that its end moves `direction` on the picture."""
    angle, speed = game.state  # counted counter-clockwise from upright: above the axle that is to the left
    push = -2.0 * direction * np.copysign(1.0, np.cos(angle))
    speed = np.clip(speed + push, -game.max_speed, game.max_speed)
    game.state = np.array([angle, speed])
    return np.array([np.cos(angle), np.sin(angle), speed], dtype=np.float32)


def _push_walker(game: gym.Env, obs: np.ndarray, direction: float) -> np.ndarray:
    """Adds WALKER_PUSH m/s to the hull, which a good agent can just catch."""
    x, y = game.hull.linearVelocity
    game.hull.linearVelocity = (x + WALKER_PUSH * direction, y)
    pushed = obs.copy()
    pushed[2] += WALKER_SIGHT * WALKER_PUSH * direction
    return pushed


Push = Callable[[gym.Env, np.ndarray, float], np.ndarray]
PUSHES: dict[str, Push] = {
    "CartPole-v1": _push_pole,
    "Pendulum-v1": _push_rod,
    "BipedalWalker-v3": _push_walker,
    "BipedalWalkerHardcore-v3": _push_walker,
}
"""What a push does to a game's state, given what the agent would see and the direction; returns what it sees then.
Other games take actions instead."""


def perturbations_of(recipe: Recipe) -> tuple[str, ...]:
    """The perturbations that a game supports: directions of a push, or numbers of the actions that can be taken; none
    where actions are no single choice."""
    if recipe.env in PUSHES:
        return tuple(DIRECTIONS)
    action = spaces_of(recipe).action
    return tuple(map(str, range(action.n))) if isinstance(action, Discrete) else ()


class Perturbed(gym.Wrapper):
    """One environment with perturbations, and with somebody's hand on the controls. What was done in a step, by
    whomever, is in its info["action"]."""

    def __init__(self, game: gym.Env, env: str, perturbations: tuple[Perturbation, ...], hand: Hand) -> None:
        super().__init__(game)
        self._push, self._perturbations, self._hand = PUSHES.get(env), perturbations, hand
        self._step, self._held = 0, []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._step, self._held = 0, []
        return self._perturb(obs), info

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        action = self._held.pop() if self._held else action
        by_hand = self._hand(self._step)
        action = action if by_hand is None else np.int64(by_hand)
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._step += 1
        obs = obs if terminated or truncated else self._perturb(obs)
        return obs, reward, terminated, truncated, info | {"action": action}

    def _perturb(self, obs: np.ndarray) -> np.ndarray:
        """Does what is to be done before the next step; returns what the agent sees then."""
        for kind in [kind for step, kind in self._perturbations if step == self._step]:
            if self._push:
                obs = self._push(self.env.unwrapped, obs, DIRECTIONS[kind])
            else:
                self._held = [np.int64(kind)] * HELD_STEPS
        return obs
