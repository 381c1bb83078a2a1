"""Live games: a visitor plays, and the server keeps the time. A game lives in the stream that shows it."""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from a3c_core.atari import FRAMES_PER_SECOND, FRAMES_PER_STEP
from a3c_core.envs import is_atari
from a3c_core.recipe import Recipe
from ui.play.game import Game, ended, framed
from ui.play.taken import TakenGame
from ui.streaming.chunks import ACTIONS
from ui.streaming.stream import Full

STEPS_PER_SECOND = {env: FRAMES_PER_SECOND / FRAMES_PER_STEP if is_atari(env) else 50.0 for env in ACTIONS}
"""How fast each game runs at its own speed."""
AT_ONCE = 12
"""Live games."""
PER_ADDRESS = 4
"""Live games of one address."""
MOST_SECONDS = 600.0
"""How long a visitor plays one game."""
STAY_SECONDS = 1200.0
"""The same with all its pauses."""
PAUSE_SECONDS = 60.0
"""A game that is paused for longer is over."""
LATE_MESSAGES = 16
"""The last ones, among which one that was overtaken may still find the one before it."""
DOUBT_SECONDS = 1.5
"""A page tells twice a second that it is there; the game of one that has not for so long waits for it."""
SILENCE_SECONDS = 5.0
"""One that has not for so long has gone, whatever its connection says."""


MakeGame = Callable[[], Game | TakenGame]


class Taken(Full):
    """There is no place for this visitor; the message says why."""


class Threads(NamedTuple):
    """What live games share of the machine."""

    playing: CapacityLimiter
    """Emulators that compute at the same moment."""
    getting_ready: CapacityLimiter
    """Games that are played up to where a visitor takes over, at the same moment."""


class Session:
    """A visitor's game, paused until the visitor's page says what is held; `make` makes it, unless it is a new one."""

    def __init__(
        self,
        recipe: Recipe,
        seed: int,
        percent: int,
        threads: Threads,
        address: str | None = None,
        make: MakeGame | None = None,
    ) -> None:
        self.address = address
        self._threads = threads
        self._make = make or partial(Game, recipe, seed)
        self.id = secrets.token_urlsafe(16)
        self.recipe, self.seed = recipe, seed
        self.rate = STEPS_PER_SECOND[recipe.env] * percent / 100
        self.game: Game | TakenGame | None = None
        self._paused, self._newest = True, -1
        self._heard: deque[tuple[int, list[str]]] = deque(maxlen=LATE_MESSAGES)
        self._doubtful_from = 0.0
        self._end: asyncio.Timeout | None = None
        self._stays_until = 0.0

    def hear(self, number: int, held: list[str] | None) -> None:
        """What is held, or None to pause. Of a message that a newer one has overtaken, presses still count, as taps."""
        if self.game is None:
            return
        _, before = max((each for each in self._heard if each[0] <= number), default=(-1, []))
        self._heard.append((number, held or []))
        if number <= self._newest:
            self.game.pad.tap_late([word for word in held or [] if word not in before])
            return
        self._newest, self._paused = number, held is None
        self._doubtful_from = asyncio.get_running_loop().time() + DOUBT_SECONDS
        if held is not None:
            self.game.pad.hold(held)
        if self._end:
            with suppress(RuntimeError):  # it is being cut off already
                self._end.reschedule(self._deadline())

    async def messages(self) -> AsyncIterator[bytes]:
        """The stream: it opens the game, runs its clock and ends with it."""
        self.game = await to_thread.run_sync(self._make, limiter=self._threads.playing)
        while not await to_thread.run_sync(self.game.get_ready, limiter=self._threads.getting_ready):
            pass
        if self.game.over:
            yield framed(ended("The game is over before that step. Take over at an earlier one."))
            return
        about = {"id": self.id, "env": self.recipe.env, "rate": self.rate, "seed": self.seed}
        yield framed(self.game.opening(about))
        clock = asyncio.get_running_loop().time
        due = paused_at = clock()
        while not self.game.over:
            if self._paused and clock() - paused_at > PAUSE_SECONDS:
                yield framed(ended("The game was paused for a minute, so it has ended."))
                return
            if self.game.steps >= MOST_SECONDS * self.rate:
                yield framed(ended("A game can last ten minutes at most. Your score counts."))
                return
            due = max(due, clock() - 1 / self.rate) + 1 / self.rate  # a clock that is late runs on, it does not race
            await asyncio.sleep(due - clock())
            if not self._paused and clock() < self._doubtful_from:
                yield framed(await to_thread.run_sync(self.game.step, limiter=self._threads.playing))
                paused_at = clock()

    def patience(self) -> asyncio.Timeout:
        """What cuts the stream off when nobody seems to be there."""
        self._stays_until = asyncio.get_running_loop().time() + STAY_SECONDS
        self._end = asyncio.timeout_at(self._deadline())
        return self._end

    def close(self) -> None:
        """Ends the game and frees its emulator."""
        if self.game:
            self.game.close()

    def _deadline(self) -> float:
        wait = SILENCE_SECONDS + (PAUSE_SECONDS if self._paused else 0.0)
        return min(asyncio.get_running_loop().time() + wait, self._stays_until)


class Sessions:
    """All live games, by their secret names."""

    def __init__(self) -> None:
        self._threads = Threads(playing=CapacityLimiter(4), getting_ready=CapacityLimiter(2))
        self._games: dict[str, Session] = {}
        self._ended: deque[str] = deque(maxlen=4 * AT_ONCE)
        self._ending = False

    def __len__(self) -> int:
        return len(self._games)

    def open(
        self, recipe: Recipe, seed: int, percent: int, address: str | None = None, make: MakeGame | None = None
    ) -> Session:
        """A place for a game, which its stream opens; `address` is None for this machine itself. Raises Taken."""
        if self._ending:
            raise Taken("The arcade is closing. Please try again in a minute.")
        if len(self) >= AT_ONCE:
            raise Taken("Too many games are being played right now. Please try again in a few minutes.")
        if address is not None and sum(live.address == address for live in self._games.values()) >= PER_ADDRESS:
            raise Taken(f"{PER_ADDRESS} games are being played from your address. Please wait until one is over.")
        live = Session(recipe, seed, percent, self._threads, address, make)
        self._games[live.id] = live
        return live

    def get(self, name: str) -> Session | None:
        """The game of that name."""
        return self._games.get(name)

    def ended(self, name: str) -> bool:
        """Whether there was a game of that name just now, which keys may still be on their way to."""
        return name in self._ended

    def close(self, live: Session) -> None:
        """Ends a game and gives its place away."""
        if self._games.pop(live.id, None):
            self._ended.append(live.id)
        live.close()

    def end(self) -> None:
        """Ends all games; no other begins."""
        self._ending = True
        for live in list(self._games.values()):
            self.close(live)


class Stream(StreamingResponse):
    """A live game as the answer to a request; when the connection closes, the game ends."""

    def __init__(self, sessions: Sessions, live: Session) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(live.messages(), media_type="application/octet-stream", headers=headers)
        self.sessions, self.live = sessions, live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self.live.patience():
                await super().__call__(scope, receive, send)
        except TimeoutError:
            pass
        finally:
            self.sessions.close(self.live)
