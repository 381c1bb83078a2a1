"""Games streamed while they are played. Its EpisodeSpec determines a game: it is played once, by a thread that keeps
some way ahead of whoever watches, and cut into chunks that all who watch it share."""

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from anyio import CapacityLimiter, to_thread

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError
from a3c_core.envs import Protocol, make_env
from a3c_core.recipe import Recipe
from ui.streaming.agent_catalog import watchable
from ui.streaming.chunks import SECONDS_PER_CHUNK, Chunk, EpisodeSpec, chunks
from ui.streaming.scheduler import Scheduler

AHEAD_SECONDS = 30.0
"""How far a game is played ahead of whoever watches it, once they have watched half as long; nobody watches, nothing
is played."""
FIRST_AHEAD_SECONDS = 2.0
"""How far of one that begins: while its page is still loading, the cores have other things to do."""
IDLE_SECONDS = 60.0
"""A game that nobody has asked for so long is ended; who comes back has it played again."""
END_SECONDS = 5.0
"""How long the end of the process waits for its games to end."""
LOOK_SECONDS = 0.02
"""How often one who waits for a chunk looks for it."""
AT_ONCE = 16
"""Games under way."""
AT_ONCE_EACH = 12
"""Of them for one address, which may be a whole school's."""
BEGINNING = 16
"""Visitors who wait at the same time for a game to begin, whose agent may have to come from the Hub."""
LEFT_SECONDS = 5.0
"""A game that nobody has asked for so long makes room for another where there is none."""
KEPT_BYTES = 32 * 2**20
"""Chunks of games that are over, and of those under way, that are kept."""
CAN_WAIT_SECONDS = 10.0
"""Who makes a file of a game can do without its next chunk for so long: it goes after those that are watched."""
START_SECONDS = 6.0
"""A viewer who would have nothing more to see within so long goes before games that have yet to begin."""


class BrokenOff(RuntimeError):
    """A game ended before its end: something broke, or nobody asked for it any more."""


class Listener(NamedTuple):
    """Somebody who waits for a chunk."""

    number: int
    wake: Callable[[], object]


class Full(RuntimeError):
    """So many games are being played that no other can start."""


def get_ready(recipe: Recipe, protocol: Protocol = "classic") -> None:
    """Sees to it that the next game of a recipe can begin at once."""
    make_env(recipe, "rgb_array_list", protocol).close()  # what it consists of is kept


class Broadcast:
    """One game, as chunks that appear while it is played."""

    def __init__(self, spec: EpisodeSpec, agent: Agent, scheduler: Scheduler, address: str | None = None) -> None:
        self.spec, self.agent, self.address = spec, agent, address
        self._scheduler = scheduler
        self.chunks: list[Chunk] = []
        self.over = False
        """Whether the last chunk is the game's last."""
        self.error: Exception | None = None
        """Why it broke off."""
        self.total = 0.0
        """The return so far."""
        self._wanted, self._asked, self._ended = 0, time.monotonic(), False
        self._prepared = False
        self._listeners: dict[int, Listener] = {}
        self._due: dict[int, float] = {}
        """When the first of those who wait for a chunk has nothing more to see."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Bytes of all chunks so far."""
        return sum(part.size for part in self.chunks)

    @property
    def alive(self) -> bool:
        """Whether there is more to come without starting anew."""
        return self._thread.is_alive() and not self._ended

    @property
    def left(self) -> bool:
        """Whether it was ended before its end, and its emulators are free."""
        return not (self._thread.is_alive() or self.over)

    @property
    def unasked(self) -> float:
        """Seconds since somebody last asked for it."""
        return time.monotonic() - self._asked

    def part(self, number: int, ahead: float = 0.0) -> Chunk | None:
        """A chunk, or None where it has not been played yet; either way the game goes on to some way past it.

        Who asks will have nothing more to see in `ahead` seconds.
        """
        with self._changed:
            self._asked = time.monotonic()
            self._wanted = max(self._wanted, number)
            if number >= len(self.chunks):
                due = self._asked + (ahead if number else START_SECONDS)
                self._due[number] = min(due, self._due.get(number, math.inf))
            self._changed.notify()
        return self.chunks[number] if number < len(self.chunks) else None

    async def heard(self, number: int, seconds: float) -> None:
        """Waits until that chunk is there, or none will come any more, for so long at most."""
        loop, there = asyncio.get_running_loop(), asyncio.Event()
        listener = Listener(number, lambda: loop.call_soon_threadsafe(there.set))
        self._listeners[id(listener)] = listener
        try:
            if number >= len(self.chunks) and self.alive:
                await asyncio.wait_for(there.wait(), seconds)
        except TimeoutError:
            pass
        finally:
            self._listeners.pop(id(listener), None)

    def _tell(self) -> None:
        """Wakes those who wait for a chunk that is there, or all where none will come any more."""
        for listener in list(self._listeners.values()):
            if listener.number < len(self.chunks) or self.over or self.error or self._ended:
                with suppress(RuntimeError):  # its loop has ended
                    listener.wake()

    def parts(self, ahead: float = 0.0) -> Iterator[Chunk]:
        """All chunks from the first on, as soon as each has been played; `ahead` as of `part`. Raises BrokenOff."""
        for number in count():
            while (part := self.part(number, ahead)) is None:
                if self.over and number >= len(self.chunks):
                    return
                if not self.alive:
                    raise BrokenOff from self.error
                time.sleep(LOOK_SECONDS)
            yield part

    def leave(self) -> None:
        """Ends the game where it is, as soon as its step is done."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Waits until nothing is played any more, for so long at most."""
        self._thread.join(seconds)

    @property
    def patience(self) -> float:
        """Seconds until a viewer has nothing more to see; longer than any where nobody waits."""
        if self.unasked > LEFT_SECONDS:
            return math.inf
        return min(list(self._due.values()), default=math.inf) - time.monotonic()

    def _run(self) -> None:
        try:
            with closing(chunks(self.spec, self.agent)) as game:
                while True:
                    with self._scheduler.turn(lambda: self.patience):
                        part = next(game, None)
                    if part is None:
                        break
                    self.total += part.rewards
                    with self._changed:
                        self._due.pop(len(self.chunks), None)
                        self.chunks.append(part)
                    self._tell()
                    if not self._watched():
                        return
            self.over = True
        except Exception as error:  # untrusted weights fit their recipe and can still break anything
            self.error = error
            if self.spec.agent in zoo.entries():
                raise
            print(f"{self.spec.agent} broke down while playing: {type(error).__name__}")
        finally:
            self._tell()

    @property
    def _ahead(self) -> int:
        """How many chunks past the one that is wanted are played."""
        seconds = min(AHEAD_SECONDS, FIRST_AHEAD_SECONDS + 2 * self._wanted * SECONDS_PER_CHUNK)
        return round(seconds / SECONDS_PER_CHUNK)

    def _watched(self) -> bool:
        """Waits until somebody wants more, and returns whether somebody did in time."""
        with self._changed:
            while len(self.chunks) > self._wanted + self._ahead and not self._ended:
                if not self._prepared:  # there is time for it
                    get_ready(self.agent.recipe, self.spec.protocol)
                    self._prepared = True
                if self.unasked > IDLE_SECONDS:
                    return False
                self._changed.wait(IDLE_SECONDS)
            return not self._ended


def make_room(games: list[Broadcast], most: int) -> None:
    """Ends the game that was left longest ago where so many are under way. Raises Full where none was left."""
    under_way = [game for game in games if game.alive]
    if len(under_way) >= most:
        left = max(under_way, key=lambda game: game.unasked)
        if left.unasked < LEFT_SECONDS:
            raise Full
        left.leave()


class Broadcasts:
    """All games that are being watched or were lately."""

    def __init__(self, load: Callable[[EpisodeSpec], Agent]) -> None:
        self.scheduler = Scheduler(places=os.cpu_count() or 1)
        self._load = load
        self._beginning = CapacityLimiter(BEGINNING)
        self._games: dict[EpisodeSpec, Broadcast] = {}
        self._lock = threading.Lock()
        self._ended = False

    def get(self, spec: EpisodeSpec, address: str | None = None) -> Broadcast:
        """The game of a spec. Where there is none yet, it begins now and counts for that address.

        Raises Full, also after the end, and what loading the agent raises.
        """
        agent = None if self.found(spec) else self._load(spec)  # may take a while, and nobody else waits for it
        with self._lock:
            if (game := self.found(spec)) is None:
                if self._ended:  # nobody would end it
                    raise Full
                self._make_room(address)
                game = self._games[spec] = Broadcast(spec, agent or self._load(spec), self.scheduler, address)
                self._throw_away()
            return game

    async def begun(self, spec: EpisodeSpec, address: str | None = None) -> Broadcast:
        """As `get`, while the server's own thread serves others."""
        return self.found(spec) or await to_thread.run_sync(self.get, spec, address, limiter=self._beginning)

    async def agent(self, spec: EpisodeSpec) -> Agent:
        """The agent of a spec. Raises what loading it raises."""
        return await to_thread.run_sync(self._load, spec, limiter=self._beginning)

    def found(self, spec: EpisodeSpec) -> Broadcast | None:
        """The game of a spec, unless nobody watched it and it has to begin anew."""
        found = self._games.get(spec)
        return found if found and (found.alive or found.over) else None  # in this order: it may end in between

    def under_way(self) -> int:
        """Games that have yet to end and that somebody watches."""
        return sum(game.alive for game in list(self._games.values()))

    @property
    def size(self) -> int:
        """Bytes of all chunks that are kept."""
        return sum(game.size for game in list(self._games.values()))

    def _make_room(self, address: str | None) -> None:
        """Ends games that were left, where no other could begin. Raises Full where none was left."""
        games = list(self._games.values())
        if address is not None:  # first, so that no other's game ends for a visitor who is refused
            make_room([game for game in games if game.address == address], AT_ONCE_EACH)
        make_room(games, AT_ONCE)

    def end(self) -> None:
        """Ends all games, before the process does: an emulator's threads must not outlive it."""
        until = time.monotonic() + END_SECONDS
        with self._lock:
            self._ended = True
        for game in list(self._games.values()):
            game.leave()
        for game in list(self._games.values()):
            game.join(max(0.0, until - time.monotonic()))

    def _throw_away(self) -> None:
        """Games that were left, which nobody can watch any more; then of those that are over the ones not asked for
        longest, until the others fit."""
        self._games = {spec: game for spec, game in self._games.items() if not game.left}
        size = self.size
        for game in sorted(self._games.values(), key=lambda game: game.unasked, reverse=True):
            if size <= KEPT_BYTES:
                return
            if game.over:
                size -= self._games.pop(game.spec).size


def agent_of(spec: EpisodeSpec) -> Agent:
    """The agent of a spec. Raises CheckpointError, HubError."""
    return _opened(spec.agent, spec.snapshot, spec.commit)


@lru_cache(maxsize=AT_ONCE)
def _opened(name: str, snapshot: int, commit: str) -> Agent:
    """An agent, which all of its games share: it holds no state, and takes megabytes."""
    found = watchable(name)
    if found is None or found.commit != commit:  # a guest who has left since the spec was written
        raise CheckpointError(f"{name} is not here any more")
    return found.open(snapshot)
