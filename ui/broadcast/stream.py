"""Games streamed while they are played. A game is a function of its Ticket: it is played once, by a thread that keeps
some way ahead of whoever watches, and cut into chunks that all who watch it share.

A chunk is a second of play, the first one half: four bytes with the header's length, the header as JSON, and compressed
pixels. Each pixel is a number in a palette; all pictures but a chunk's first are XORed with the one before.
"""

import asyncio
import atexit
import json
import math
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache, lru_cache
from itertools import count, islice, pairwise
from typing import Any, NamedTuple

import numpy as np

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError
from a3c_core.envs import Protocol, make_env
from a3c_core.nudge import Nudge, kinds_of
from a3c_core.play import Moment, moments
from a3c_core.recipe import Recipe
from ui.broadcast.guests import watchable
from ui.broadcast.nudges import written
from ui.broadcast.sights import Sight, sight_of
from ui.broadcast.stage import Stage

SECONDS_PER_CHUNK, SECONDS_OF_FIRST = 1.0, 0.5
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
LEFT_SECONDS = 5.0
"""A game that nobody has asked for so long makes room for another where there is none."""
KEPT_BYTES = 32 * 2**20
"""Chunks of games that are over, and of those under way, that are kept."""
STAGE = Stage(places=os.cpu_count() or 1)
START_SECONDS = 6.0
"""A viewer who would have nothing more to see within so long goes before games that have yet to begin."""
MOST_STEPS = 27_000
"""Steps of a game that are shown: half an hour of Atari."""
MOST_CHUNKS = MOST_STEPS
"""No game has as many."""


class Ticket(NamedTuple):
    """Which game: the same ticket is the same game, to the last pixel."""

    agent: str
    seed: int
    snapshot: int = 100
    greedy: bool = True
    protocol: Protocol = "classic"
    nudges: tuple[Nudge, ...] = ()
    commit: str = ""
    """Of the repository, where the agent is a stranger's."""


class Part(NamedTuple):
    """Some steps of a game: the chunk that players get, and what the agent saw in them where that is pictures."""

    first: int
    """The first of the steps."""
    rewards: float
    """What they earned together."""
    chunk: bytes
    sight: Sight | None

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.chunk) + (len(self.sight.frames) if self.sight else 0)


class BrokenOff(RuntimeError):
    """A game ended before its end: something broke, or nobody asked for it any more."""


class Listener(NamedTuple):
    """Somebody who waits for a chunk."""

    number: int
    wake: Callable[[], object]


class Full(RuntimeError):
    """So many games are being played that no other can start."""


class Palette:
    """The colours of an environment's pictures, numbered as they appear; one more than 256 becomes the nearest."""

    def __init__(self) -> None:
        self._numbers = np.full(2**18, -1, dtype=np.int16)  # six bits of each channel are told apart
        self._colours = np.zeros((256, 3), dtype=np.uint8)
        self._count = 0
        self._lock = threading.Lock()

    def index(self, picture: np.ndarray) -> np.ndarray:
        """uint8 [rows, width] numbers of the colours of some rows of a picture, uint8 [rows, width, 3]."""
        red, green, blue = (picture[..., channel].astype(np.uint32) >> 2 for channel in range(3))
        packed = red << 12 | green << 6 | blue
        numbers = self._numbers[packed]
        if (numbers < 0).any():
            self._learn(picture[numbers < 0], packed[numbers < 0])
            numbers = self._numbers[packed]
        return numbers.astype(np.uint8)

    def _learn(self, colours: np.ndarray, packed: np.ndarray) -> None:
        with self._lock:
            places, examples = np.unique(packed, return_index=True)
            for where, colour in zip(places, colours[examples], strict=True):
                if self._numbers[where] < 0 and self._count < 256:
                    self._colours[self._count], self._numbers[where] = colour, self._count
                    self._count += 1
                elif self._numbers[where] < 0:
                    self._numbers[where] = np.abs(self._colours.astype(int) - colour).sum(1).argmin()

    def tobytes(self) -> bytes:
        """All 256 colours, three bytes each."""
        return self._colours.tobytes()


@cache
def palette_of(env: str) -> Palette:
    """The palette that all games of an environment share."""
    return Palette()


class Screen(NamedTuple):
    """How games are shown."""

    rate: int
    """Pictures per second."""
    pixel: tuple[int, int]
    """Rows and columns that one fills."""


@cache
def screen_of(recipe: Recipe) -> Screen:
    """What a recipe's games are shown on."""
    with closing(make_env(recipe, "rgb_array_list")) as env:
        return Screen(env.metadata["render_fps"], env.metadata.get("pixel", (1, 1)))


def get_ready(recipe: Recipe, protocol: Protocol = "classic") -> None:
    """Sees to it that the next game of a recipe can begin at once."""
    make_env(recipe, "rgb_array_list", protocol).close()  # what it consists of is kept


class Broadcast:
    """One game, as chunks that appear while it is played."""

    def __init__(self, ticket: Ticket, agent: Agent, address: str | None = None) -> None:
        self.ticket, self.agent, self.address = ticket, agent, address
        self.chunks: list[Part] = []
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

    def part(self, number: int, ahead: float = 0.0) -> Part | None:
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

    def parts(self) -> Iterator[Part]:
        """All chunks from the first on, as soon as each has been played. Raises BrokenOff."""
        for number in count():
            while (part := self.part(number)) is None:
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
            with closing(chunks(self.ticket, self.agent)) as game:
                while True:
                    with STAGE.turn(lambda: self.patience):
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
        except Exception as error:  # a stranger's weights fit their recipe and can still break anything
            self.error = error
            if self.ticket.agent in zoo.entries():
                raise
            print(f"{self.ticket.agent} broke down while playing: {type(error).__name__}")
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
                    get_ready(self.agent.recipe, self.ticket.protocol)
                    self._prepared = True
                if self.unasked > IDLE_SECONDS:
                    return False
                self._changed.wait(IDLE_SECONDS)
            return not self._ended


def chunks(ticket: Ticket, agent: Agent) -> Iterator[Part]:
    """Plays a game and cuts it into chunks."""
    palette, (rate, pixel) = palette_of(agent.recipe.env), screen_of(agent.recipe)
    part: list[Moment] = []
    first, pictures = 0, 0
    rules = {"greedy": ticket.greedy, "protocol": ticket.protocol, "nudges": ticket.nudges}
    with closing(moments(agent, ticket.seed, **rules, watched=True)) as game:
        for step, moment in enumerate(islice(game, MOST_STEPS), start=1):
            part.append(moment)
            pictures += len(moment.pictures)
            over = moment.over or step == MOST_STEPS
            if over or pictures >= rate * (SECONDS_PER_CHUNK if first else SECONDS_OF_FIRST):
                about = about_game(ticket, agent, moment, rate, pixel) if first == 0 else {}
                rewards = sum(moment.reward for moment in part)
                yield Part(first, rewards, packed(part, first, over, palette, about), sight_of(part))
                part, first, pictures = [], step, 0


def about_game(ticket: Ticket, agent: Agent, moment: Moment, rate: int, pixel: tuple[int, int]) -> dict[str, Any]:
    """What the first chunk tells of the whole game."""
    height, width, _ = moment.pictures[0].shape
    return {
        "game": {
            **ticket._asdict(),
            "nudges": written(ticket.nudges),
            "env": agent.recipe.env,
            "height": height,
            "width": width,
            "pixel": pixel,
            "rate": rate,
            "actions": ALL_ACTIONS if agent.recipe.full_action_space else ACTIONS.get(agent.recipe.env),
            "kinds": kinds_of(agent.recipe),
            "pictured": moment.obs.ndim == 3,
            "trained": agent.steps,
        }
    }


ACTIONS = {
    "CartPole-v1": ["left", "right"],
    "ALE/Pong-v5": ["wait", "fire", "up", "down", "up, fire", "down, fire"],
    "ALE/Breakout-v5": ["wait", "fire", "right", "left"],
    "ALE/SpaceInvaders-v5": ["wait", "fire", "right", "left", "right, fire", "left, fire"],
}
"""What each action does; Pendulum's is a torque."""

DIRECTIONS = ["up", "right", "left", "down", "up right", "up left", "down right", "down left"]
ALL_ACTIONS = ["wait", "fire", *DIRECTIONS, *(f"{direction}, fire" for direction in DIRECTIONS)]
"""What each action of an Atari's full set does, in ALE's order."""


def packed(part: list[Moment], first: int, over: bool, palette: Palette, about: dict[str, Any]) -> bytes:
    """Some steps of a game as one chunk."""
    frames = numbered([picture for moment in part for picture in moment.pictures], palette)
    frames[1:] ^= frames[:-1].copy()
    header = about | {
        "first": first,
        "over": over,
        "pictures": [len(moment.pictures) for moment in part],
        "actions": [np.round(moment.action, 3).tolist() for moment in part],
        "policies": [np.round(moment.policy, 3).tolist() for moment in part],
        "values": [round(moment.value, 3) for moment in part],
        "rewards": [round(moment.reward, 6) for moment in part],
    }
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()  # no browser reads Infinity
    return len(text).to_bytes(4, "little") + text + zlib.compress(palette.tobytes() + frames.tobytes(), 1)


def numbered(pictures: list[np.ndarray], palette: Palette) -> np.ndarray:
    """uint8 [pictures, height, width] numbers of their colours. Few rows change from one picture to the next."""
    numbers = np.empty((len(pictures), *pictures[0].shape[:2]), np.uint8)
    numbers[0] = palette.index(pictures[0])
    for i, (before, picture) in enumerate(pairwise(pictures), start=1):
        rows = (picture != before).any((1, 2))
        numbers[i] = numbers[i - 1]
        numbers[i, rows] = palette.index(picture[rows])
    return numbers


def header_of(chunk: bytes) -> dict[str, Any]:
    """What a chunk tells of its steps."""
    return json.loads(chunk[4 : _pixels_at(chunk)])


def pixels_of(chunk: bytes) -> bytes:
    """A chunk's colours and pictures, unpacked."""
    return zlib.decompress(chunk[_pixels_at(chunk) :])


def _pixels_at(chunk: bytes) -> int:
    return 4 + int.from_bytes(chunk[:4], "little")


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

    def __init__(self, load: Callable[[Ticket], Agent]) -> None:
        self._load = load
        self._games: dict[Ticket, Broadcast] = {}
        self._lock = threading.Lock()

    def get(self, ticket: Ticket, address: str | None = None) -> Broadcast:
        """The game of a ticket, which begins now, for who is at that address, unless it is there.

        Raises Full, and what loading the agent raises.
        """
        agent = None if self.found(ticket) else self._load(ticket)  # may take a while, and nobody else waits for it
        with self._lock:
            if (game := self.found(ticket)) is None:
                self._make_room(address)
                game = self._games[ticket] = Broadcast(ticket, agent or self._load(ticket), address)
                self._throw_away()
            return game

    def found(self, ticket: Ticket) -> Broadcast | None:
        """The game of a ticket, unless nobody watched it and it has to begin anew."""
        found = self._games.get(ticket)
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
        if address is not None:  # first, so that no other's game ends for who is refused
            make_room([game for game in games if game.address == address], AT_ONCE_EACH)
        make_room(games, AT_ONCE)

    def end(self) -> None:
        """Ends all games, before the process does: an emulator's threads must not outlive it."""
        until = time.monotonic() + END_SECONDS
        for game in list(self._games.values()):
            game.leave()
        for game in list(self._games.values()):
            game.join(max(0.0, until - time.monotonic()))

    def _throw_away(self) -> None:
        """Games that were left, which nobody can watch any more; then of those that are over the ones not asked for
        longest, until the others fit."""
        self._games = {ticket: game for ticket, game in self._games.items() if not game.left}
        size = self.size
        for game in sorted(self._games.values(), key=lambda game: game.unasked, reverse=True):
            if size <= KEPT_BYTES:
                return
            if game.over:
                size -= self._games.pop(game.ticket).size


def agent_of(ticket: Ticket) -> Agent:
    """The agent of a ticket. Raises CheckpointError, HubError."""
    return _opened(ticket.agent, ticket.snapshot, ticket.commit)


@lru_cache(maxsize=AT_ONCE)
def _opened(name: str, snapshot: int, commit: str) -> Agent:
    """An agent, which all of its games share: it holds no state, and takes megabytes."""
    found = watchable(name)
    if found is None or found.commit != commit:  # a guest who has left since the ticket was written
        raise CheckpointError(f"{name} is not here any more")
    return found.open(snapshot)


BROADCASTS = Broadcasts(agent_of)
atexit.register(BROADCASTS.end)
