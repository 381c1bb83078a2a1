"""Lines in front of work that takes a core: some is done, some waits, the rest is refused at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Busy(RuntimeError):
    """So many are waiting already."""


class Line:
    """Lets `at_once` work at the same time, and `waiting` others wait for their turn."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._turns = threading.Semaphore(at_once)
        self._room = threading.Semaphore(at_once + waiting)

    @property
    def full(self) -> bool:
        """Whether one more would be refused."""
        if free := self._room.acquire(blocking=False):
            self._room.release()
        return not free

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One's turn, when it has come. Raises Busy where the line is full."""
        if not self._room.acquire(blocking=False):
            raise Busy
        try:
            with self._turns:
                yield
        finally:
            self._room.release()
