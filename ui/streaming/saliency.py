"""What an agent saw in a chunk of a game: kept while the game is, so that any step can be asked what it looked at."""

import time
import zlib
from base64 import b64encode
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from a3c_core.agent import Agent
from a3c_core.model import Memory
from playback.episode import PlaybackStep, one_thread
from playback.saliency import saliency
from ui.admission import Admission, PerVisitor

EACH = 2
"""Looks of one visitor that may be under way or waiting."""
TURN_SECONDS = 0.2
"""How long a turn may be: the others ask again meanwhile."""


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


def maps_from(agent: Agent, sight: Sight, begin: int) -> Iterator[str]:
    """What the agent looked at in each of the steps from `begin` on, in base64: two square maps, for its choice and for
    its value, with a byte from 0 to 255 for each field."""
    observations = sight.unpacked()
    memory = agent.model.initial_memory(1) if sight.memory is None else sight.memory
    for step, observation in enumerate(observations):
        with one_thread():
            found = saliency(agent.model, torch.from_numpy(observation), memory) if step >= begin else None
            if memory:
                _, _, memory = agent.policy_and_value(observation[None], memory)
        if found:
            yield b64encode(b"".join(map(shades, found))).decode()


def shades(found: torch.Tensor) -> bytes:
    """A map with its greatest number as 255."""
    most = max(float(found.max()), 1e-6)  # where nothing matters, rounding must not look like much
    return (found * (255.0 / most)).round().to(torch.uint8).numpy().tobytes()


class Looks:
    """Turns at looking: a look is 145 runs of the network, about 25 ms of a core."""

    def __init__(self) -> None:
        self.line = Admission(at_once=1, waiting=4)
        self.of_one_visitor = PerVisitor(EACH, "pictures are being looked at")

    def maps(self, agent: Agent, sight: Sight, begin: int, most: int) -> list[str]:
        """The first of `maps_from`: `most`, or as many as one turn has time for. Raises Busy."""
        found: list[str] = []
        with self.line.turn():
            until = time.monotonic() + TURN_SECONDS
            for each in islice(maps_from(agent, sight, begin), most):
                found.append(each)
                if time.monotonic() > until:
                    break
        return found
