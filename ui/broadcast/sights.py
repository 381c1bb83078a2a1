"""What an agent saw in a chunk of a game: kept while the game is, so that any step can be asked what it looked at."""

import threading
import zlib
from typing import NamedTuple

import numpy as np
import torch

from a3c_core.agent import Agent
from a3c_core.model import Memory
from a3c_core.play import Moment, one_thread
from a3c_core.saliency import saliency

LOOKS_AT_ONCE = threading.Semaphore(1)
"""A look is 145 runs of the network: about 25 ms of a core."""


class Sight(NamedTuple):
    """The observations of some steps in a row, about 500 bytes each, and what the agent remembered before the first."""

    shape: tuple[int, ...]
    """[steps, frames, height, width]"""
    observations: bytes
    memory: Memory | None


class Busy(RuntimeError):
    """Another look is being taken."""


def sight_of(part: list[Moment]) -> Sight | None:
    """What was seen in some steps; None where the agent sees no pictures."""
    observations = np.stack([moment.obs for moment in part])
    if observations.ndim != 4:
        return None
    return Sight(observations.shape, zlib.compress(observations.tobytes(), 1), part[0].memory)


def look(agent: Agent, sight: Sight, index: int) -> list[list[int]]:
    """How much the choice in one of the steps depended on each part of the picture, from 0 to 255. Raises Busy."""
    if not LOOKS_AT_ONCE.acquire(blocking=False):
        raise Busy
    try:
        with one_thread():
            return _look(agent, sight, index)
    finally:
        LOOKS_AT_ONCE.release()


def _look(agent: Agent, sight: Sight, index: int) -> list[list[int]]:
    observations = np.frombuffer(bytearray(zlib.decompress(sight.observations)), np.uint8).reshape(sight.shape)
    memory = agent.model.initial_memory(1) if sight.memory is None else sight.memory
    for before in observations[:index] if memory else ():
        _, _, memory = agent.think(before[None], memory)
    found = saliency(agent.model, torch.from_numpy(observations[index]), memory)
    most = max(float(found.max()), 1e-6)  # where nothing matters, rounding must not look like much
    return (found * (255.0 / most)).round().int().tolist()
