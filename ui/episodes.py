"""Games as videos: recording one, and a shelf of recordings that all visitors share."""

import atexit
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from a3c_core.agent import Agent
from playback.episode import play, render
from playback.video import write_mp4


class Recording(NamedTuple):
    """A game as a video file, with its numbers."""

    video: Path
    env: str
    seed: int
    returns: np.ndarray
    """[T] return so far, after each step."""
    values: np.ndarray
    """[T] the discounted sum of rewards that the agent expected from here on."""

    @property
    def total(self) -> float:
        """The game's return."""
        return float(self.returns[-1])


def record(agent: Agent, seed: int, video: Path, *, title: str) -> Recording:
    """Plays one game with the likeliest actions and writes it to `video`. Raises ValueError for a seed that is no
    scoring seed."""
    episode = play(agent, seed)
    write_mp4(render(agent, episode), video, title=title, comment=episode.outcome, small=True)
    return Recording(video, agent.recipe.env, seed, episode.rewards.cumsum(), episode.values)


class Shelf:
    """Recordings by key; the one not asked for longest is thrown away where there are too many, but none that was asked
    for within the last `seconds`: it is being sent."""

    def __init__(self, size: int, seconds: float = 60.0) -> None:
        self.size, self.seconds = size, seconds
        self._recordings: OrderedDict[Hashable, Future[Recording]] = OrderedDict()
        self._asked: dict[Hashable, float] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Recording]) -> Recording:
        """The recording of that key. Whoever asks first makes it, others wait for theirs; a failure is not kept."""
        with self._lock:
            found = self._recordings.get(key)
            mine = found is None
            if mine:
                found = self._recordings[key] = Future()
            self._recordings.move_to_end(key)
            self._asked[key] = time.monotonic()
        if mine:
            try:
                found.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._recordings.pop(key, None)
                    self._asked.pop(key, None)
                found.set_exception(error)
            self._throw_away()
        return found.result()

    def _throw_away(self) -> None:
        with self._lock:
            before = time.monotonic() - self.seconds
            done = [key for key, future in self._recordings.items() if future.done() and self._asked[key] <= before]
            for key in done[: max(0, len(self._recordings) - self.size)]:
                del self._asked[key]
                video = self._recordings.pop(key).result().video
                video.unlink(missing_ok=True)
                with suppress(OSError):  # where other videos are beside it
                    video.parent.rmdir()


@cache
def scratch() -> Path:
    """A directory for videos and trainings that goes when the app ends."""
    directory = Path(tempfile.mkdtemp(prefix="a3c-arcade-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def new_video(name: str) -> Iterator[Path]:
    """Where a video may be written, in a directory of its own that goes where the video fails."""
    video = scratch() / secrets.token_hex(4) / f"{name}.mp4"
    video.parent.mkdir()
    try:
        yield video
    except BaseException:
        shutil.rmtree(video.parent, ignore_errors=True)
        raise
