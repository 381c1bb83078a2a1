"""Emulators that are used again: making one takes a fifth of a second, in which no other thread of Python runs."""

import atexit
import threading

from a3c_core import atari
from a3c_core.atari import AtariGames, EmulatorSpec


class EmulatorPool:
    """Keeps emulators that nobody uses any more for the next game of the same spec.

    Starting another game on one is quick, and its seed alone determines the game.
    """

    def __init__(self, per_spec: int) -> None:
        self._per_spec = per_spec
        self._spare: dict[EmulatorSpec, list[AtariGames]] = {}
        self._lock = threading.Lock()

    def take(self, spec: EmulatorSpec) -> AtariGames:
        """A spare emulator, or a new one."""
        with self._lock:
            spare = self._spare.get(spec)
            if spare:
                return spare.pop()
        return spec.make()

    def leave(self, spec: EmulatorSpec, games: AtariGames) -> None:
        """Keeps an emulator for others, or closes it where the pool has enough of its spec."""
        with self._lock:
            spare = self._spare.setdefault(spec, [])
            if len(spare) < self._per_spec:
                spare.append(games)
                return
        games.close()

    def close(self) -> None:
        """Closes all, before the process ends, and those that are still to come back: their threads must not outlive
        it."""
        with self._lock:
            self._per_spec = 0
            while self._spare:
                _, spare = self._spare.popitem()
                for games in spare:
                    games.close()


def use_emulator_pool(per_spec: int = 8) -> None:
    """Has all single Atari games of this process take their emulators from a pool, until the process ends."""
    if not isinstance(atari.emulators, EmulatorPool):
        atari.emulators = EmulatorPool(per_spec)
        atexit.register(atari.emulators.close)
