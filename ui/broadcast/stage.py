"""Turns at playing: all games share the cores, and those whose viewers wait go first."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stage:
    """Lets `places` games play at the same time, each for one chunk; then the next is that with the least patience."""

    def __init__(self, places: int) -> None:
        self._free = places
        self.waiting: dict[object, Callable[[], float]] = {}
        """How patient each is that waits for its turn."""
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, patience: Callable[[], float]) -> Iterator[None]:
        """A place, once no other that waits has less patience; `patience` is asked again whenever a place is free."""
        me = object()
        with self._changed:
            self.waiting[me] = patience
            self._changed.wait_for(lambda: self._free and self._next() is me)
            del self.waiting[me]
            self._free -= 1
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def _next(self) -> object:
        return min(self.waiting, key=lambda one: self.waiting[one]())
