"""What an agent saw in a chunk of a game: kept while the game is, so that any step can be asked what it looked at."""

import zlib
from typing import NamedTuple

import numpy as np
import torch

from a3c_core.agent import Agent
from a3c_core.model import Memory
from playback.episode import PlaybackStep, one_thread
from playback.saliency import saliency
from ui.line import Line

LOOKS = Line(at_once=1, waiting=4)
"""A look is 145 runs of the network: about 25 ms of a core."""


class Sight(NamedTuple):
    """The observations of some steps in a row, and what the agent remembered before the first.

    Each observation is the one before without its oldest frame and with a new one, so that every frame is kept once.
    """

    shape: tuple[int, ...]
    """[steps, frames, height, width]"""
    frames: bytes
    memory: Memory | None

    def unpacked(self) -> np.ndarray:
        """uint8 [steps, frames, height, width] observations."""
        steps, stacked, *picture = self.shape
        frames = np.frombuffer(zlib.decompress(self.frames), np.uint8).reshape(-1, *picture)
        return np.stack([frames[step : step + stacked] for step in range(steps)])


def sight_of(part: list[PlaybackStep]) -> Sight | None:
    """What was seen in some steps; None where the agent sees no pictures."""
    observations = np.stack([moment.obs for moment in part])
    if observations.ndim != 4:
        return None
    frames = np.concatenate([observations[0], observations[1:, -1]])
    return Sight(observations.shape, zlib.compress(frames.tobytes(), 1), part[0].memory)


def look(agent: Agent, sight: Sight, index: int) -> list[list[int]]:
    """How much the choice in one of the steps depended on each part of the picture, from 0 to 255. Raises Busy."""
    with LOOKS.turn(), one_thread():
        observations = sight.unpacked()
        memory = agent.model.initial_memory(1) if sight.memory is None else sight.memory
        for before in observations[:index] if memory else ():
            _, _, memory = agent.policy_and_value(before[None], memory)
        found = saliency(agent.model, torch.from_numpy(observations[index]), memory)
    most = max(float(found.max()), 1e-6)  # where nothing matters, rounding must not look like much
    return (found * (255.0 / most)).round().int().tolist()
