"""Makes the spaces of any Gymnasium environment those that networks here read and give.

Observations become a vector, float32 [n], or frames [channels, height, width] with pixels from 0 to 255. Actions become
Discrete or MultiDiscrete that count from 0, or a Box of any shape between -1 and 1.
"""

import math
from collections.abc import Callable

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.spaces.utils import flatten, flatten_space
from gymnasium.wrappers import ClipAction, RescaleAction, TransformAction, TransformObservation

UNIT = np.float32(-1), np.float32(1)
"""Bounds of every continuous action, which is clipped to them and scaled to the environment's own."""

SMALLEST_FRAME = 8
"""Pixels of the shorter side of a picture. What is smaller is read as a vector."""


class UnsupportedSpace(ValueError):
    """The environment shows or takes something that no network here reads or gives."""


def adapted(env: gym.Env) -> gym.Env:
    """`env` with the spaces that networks here read and give. Raises UnsupportedSpace."""
    return adapt_actions(adapt_observations(env))


def adapt_observations(env: gym.Env) -> gym.Env:
    """`env` with observations that are a vector or frames. What is neither is flattened, a number that counts becomes
    one-hot, and dictionaries and tuples become one vector."""
    space = env.observation_space
    if is_frames(space):
        shape = _channels_first(np.zeros(space.shape, bool)).shape
        if space.dtype == np.uint8:
            return env if shape == space.shape else _observing(env, _channels_first, Box(0, 255, shape, np.uint8))
        scale = np.float32(255 / space.high.max())
        return _observing(
            env, lambda obs: (_channels_first(obs) * scale).astype(np.float32), Box(0, 255, shape, np.float32)
        )
    if isinstance(space, Box) and len(space.shape) == 1 and space.dtype == np.float32:
        return env
    flat = flatten_space(space)
    if not isinstance(flat, Box):
        raise UnsupportedSpace(f"{_name(env)} shows what can't become a vector, {space}: wrap it to show a Box")
    low, high = flat.low.astype(np.float32), flat.high.astype(np.float32)
    return _observing(env, lambda obs: flatten(space, obs).astype(np.float32), Box(low, high, dtype=np.float32))


def adapt_actions(env: gym.Env) -> gym.Env:
    """`env` with actions that count from 0 or lie between -1 and 1. Raises UnsupportedSpace."""
    space = env.action_space
    if isinstance(space, Discrete):
        return _acting(env, lambda action: int(action) + int(space.start), Discrete(space.n))
    if isinstance(space, MultiDiscrete):
        shape, start = space.shape, space.start
        if len(shape) == 1 and not start.any():
            return env
        return _acting(env, lambda action: np.reshape(action, shape) + start, MultiDiscrete(space.nvec.flatten()))
    if isinstance(space, MultiBinary):
        shape, count = space.shape, math.prod(space.shape)
        return _acting(
            env, lambda action: np.reshape(action, shape).astype(space.dtype), MultiDiscrete(np.full(count, 2))
        )
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        if not space.is_bounded():
            raise UnsupportedSpace(
                f"{_name(env)} takes actions without bounds: give its Box finite ones, such as low=-1 and high=1"
            )
        return ClipAction(RescaleAction(env, *UNIT))
    raise UnsupportedSpace(
        f"{_name(env)} takes {space}: only Discrete, MultiDiscrete, MultiBinary and a Box of floats are supported"
    )


def is_frames(space: Space) -> bool:
    """Whether observations are pictures: uint8, or floats from 0 to 1 or 255, as [height, width], with channels or
    stacked frames first or last, or as stacked [frames, height, width, channels]."""
    if not isinstance(space, Box) or not 2 <= len(space.shape) <= 4:
        return False
    pixels = space.dtype == np.uint8 or (
        np.issubdtype(space.dtype, np.floating) and not space.low.any() and set(space.high.flat) in ({1.0}, {255.0})
    )
    sides = _channels_first(np.zeros(space.shape, bool)).shape[1:]
    return bool(pixels) and min(sides) >= SMALLEST_FRAME


def _channels_first(frames: np.ndarray) -> np.ndarray:
    """The frames as [channels, height, width]; the shorter of the first and the last dimension are the channels."""
    if frames.ndim == 2:
        return frames[None]
    if frames.ndim == 4:
        return np.moveaxis(frames, -1, 1).reshape(-1, *frames.shape[1:3])
    return np.moveaxis(frames, -1, 0) if frames.shape[-1] < frames.shape[0] else frames


def _observing(env: gym.Env, transform: Callable, space: Space) -> gym.Env:
    return TransformObservation(env, transform, space)


def _acting(env: gym.Env, transform: Callable, space: Space) -> gym.Env:
    return TransformAction(env, transform, space)


def _name(env: gym.Env) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__
