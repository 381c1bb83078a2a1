"""Turns at playing: all games share the cores, and those whose viewers wait go first."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ASK_AGAIN_SECONDS = 0.1
"""Patience runs out while one waits, and nobody tells of it."""


class Scheduler:
    """Lets `places` games play at the same time, each for one chunk; then the next is that with the least patience."""

    def __init__(self, places: int) -> None:
        self._free = places
        self.waiting: dict[object, Callable[[], float]] = {}
        """How patient each is that waits for its turn."""
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, patience: Callable[[], float]) -> Iterator[None]:
        """A place, once no other that waits has less patience; `patience` is asked again and again."""
        me = object()
        with self._changed:
            self.waiting[me] = patience
            while not (self._free and self._next() is me):
                self._changed.wait(ASK_AGAIN_SECONDS)
            del self.waiting[me]
            self._free -= 1
            self._changed.notify_all()  # there may be a place for another
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def _next(self) -> object:
        return min(self.waiting, key=lambda one: self.waiting[one]())
