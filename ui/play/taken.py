"""An agent's game that a visitor takes over: it is played up to that moment, and from there whoever has the controls
plays. Its messages are those of ui/play/game.py, but for the first, which has no picture: the page shows it already."""

import json
import threading
from typing import Any

from a3c_core.agent import Agent
from playback.takeover import replayed, until
from ui.play.controls import Gamepad
from ui.streaming.chunks import MOST_STEPS, EpisodeSpec, action_names, packed, palette_of, steps_of

STEPS_AT_ONCE = 50
"""Of those before the takeover; then it is looked whether the visitor is still there."""


class TakenGame:
    """The game of a spec from a step on. Raises ValueError for no scoring seed."""

    def __init__(self, spec: EpisodeSpec, agent: Agent, first: int) -> None:
        self.pad = Gamepad(action_names(agent.recipe))
        self.over = False
        self.steps = 0
        """Since the takeover."""
        self._first, self._played = first, 0
        self._before = replayed(until(spec.takeovers, first))
        self._by_hand = False
        self._palette = palette_of(agent.recipe.env)
        self._game = steps_of(spec, agent, self._hand)
        self._lock = threading.Lock()

    def _hand(self, step: int) -> int | None:
        if step < self._first:
            return self._before(step)
        self._by_hand = not self.pad.handed_back
        return self.pad.action() if self._by_hand else None

    def get_ready(self) -> bool:
        """Plays some steps of those before the takeover; returns whether none is left."""
        with self._lock:
            for _ in range(STEPS_AT_ONCE):
                if self.over or self._played == self._first:
                    return True
                self.over = next(self._game).over
                self._played += 1
            return False

    def opening(self, about: dict[str, Any]) -> bytes:
        """The message that comes before all steps."""
        text = json.dumps({"live": about}).encode()
        return len(text).to_bytes(4, "little") + text

    def step(self) -> bytes:
        """Takes one step, and returns its chunk; none where the game has been closed."""
        with self._lock:
            if self.over:
                return b""
            moment, number = next(self._game), self._played
            self._played += 1
            self.steps += 1
            self.over = moment.over or self._played == MOST_STEPS
            return packed([moment], number, self.over, self._palette, {"by_hand": [self._by_hand]})

    def close(self) -> None:
        """Frees the emulator."""
        with self._lock:
            self.over = True
            self._game.close()
