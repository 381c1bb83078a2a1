"""A game that a visitor plays step by step, and the messages that show it.

A message is a chunk (see ui/streaming/chunks.py) with its length in four bytes before it: one per step, and first of
all one with the picture before the first step. A chunk without pixels says why a game ended before its end.
"""

import json
import threading
from typing import Any

import numpy as np

from a3c_core.envs import make_env
from a3c_core.evaluation import check_seeds
from a3c_core.recipe import Recipe
from playback.episode import PlaybackStep
from ui.play.controls import Gamepad
from ui.streaming.chunks import ACTIONS, packed, palette_of


class Game:
    """A game step by step: the one that an agent plays with the same seed. Raises ValueError for no scoring seed."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        check_seeds([seed])
        self.pad = Gamepad(ACTIONS[recipe.env])
        self.over = False
        self.steps = 0
        self._env = make_env(recipe, "rgb_array_list")
        self._palette = palette_of(recipe.env)
        self._lock = threading.Lock()
        self._env.reset(seed=seed)

    def get_ready(self) -> bool:
        """Whether the visitor can begin: at once."""
        return True

    def opening(self, about: dict[str, Any]) -> bytes:
        """The chunk that comes before all steps."""
        pictures = list(self._env.render())
        height, width, _ = pictures[0].shape
        told = {"game": about | {"height": height, "width": width}}
        return packed([_moment(-1, 0.0, pictures, over=False)], 0, False, self._palette, told)

    def step(self) -> bytes:
        """Takes one step with what is held, and returns its chunk; none where the game has been closed."""
        with self._lock:
            if self.over:
                return b""
            action = self.pad.action()
            _, reward, terminated, truncated, _ = self._env.step(action)
            self.over = bool(terminated or truncated)
            self.steps += 1
            moment = _moment(action, float(reward), list(self._env.render()), over=self.over)
            return packed([moment], self.steps, self.over, self._palette, {})

    def close(self) -> None:
        """Frees the emulator."""
        with self._lock:
            self.over = True
            self._env.close()


def _moment(action: int, reward: float, pictures: list[np.ndarray], *, over: bool) -> PlaybackStep:
    nothing = np.array([])  # no agent plays
    return PlaybackStep(np.array(action), nothing, 0.0, reward, pictures, over, obs=nothing, memory=None)


def framed(message: bytes) -> bytes:
    """A message with its length before it."""
    return len(message).to_bytes(4, "little") + message


def ended(sentence: str) -> bytes:
    """A chunk without pixels, which says why the game is over."""
    text = json.dumps({"ended": sentence}).encode()
    return len(text).to_bytes(4, "little") + text
