"""Lines in front of work that takes a core: some is done, some waits, the rest is refused at once; and each visitor's
share of it, so that nobody fills a line alone."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date


class Busy(RuntimeError):
    """So many are waiting already."""


class TooMany(Busy):
    """A visitor has enough under way already; the message says so."""


class PerVisitor:
    """Lets every address have `most` of something under way; this machine itself, None, may do what it likes."""

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._under_way: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def one(self, address: str | None) -> Iterator[None]:
        """One more for that address. Raises TooMany."""
        if address is None:
            yield
            return
        with self._lock:
            if self._under_way[address] >= self._most:
                raise TooMany(f"{self._most} {self._what} for your address already. Please wait until one is done.")
            self._under_way[address] += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way[address] -= 1
                self._under_way += Counter()  # forgets who has nothing under way


class PerDay:
    """Lets every address begin `most` of something a day; this machine itself, None, may do what it likes."""

    def __init__(self, most: int, what: str, today: Callable[[], date]) -> None:
        self._most, self._what, self._today = most, what, today
        self._begun: Counter[str] = Counter()
        self._day = today()
        self._lock = threading.Lock()

    def count(self, address: str | None) -> None:
        """One more for that address. Raises TooMany."""
        if address is None:
            return
        with self._lock:
            if (day := self._today()) != self._day:
                self._begun, self._day = Counter(), day
            if self._begun[address] >= self._most:
                raise TooMany(f"{self._most} {self._what} for your address today. Please come back tomorrow.")
            self._begun[address] += 1


class Admission:
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
