"""A moment of each agent's game, as the Zoo tab shows it. Those of the zoo's own agents ship with the page, which would
keep its first visitor waiting for them: `python -m ui.zoo_tab.draw_thumbnails` draws them anew."""

import threading
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import imageio.v3 as iio

import zoo
from a3c_core.checkpoint import MODEL
from playback.episode import playback_steps
from ui.streaming.chunks import SECONDS_OF_FIRST, SECONDS_PER_CHUNK, screen_of
from zoo import ZooEntry

THUMBNAILS = Path(__file__).parent / "pictures"
FIRST_CHUNK = 4
"""Of a game that is played on its still picture, which shows the same moment; the first seconds of many are empty."""

_drawing = threading.Lock()


def thumbnail_of(entry: ZooEntry) -> bytes:
    """A picture of the agent's game as PNG: the one that ships, unless its weights are others by now.

    Raises CheckpointError, HubError and OSError where the agent cannot be had.
    """
    shipped = file_of(entry)
    if shipped.is_file():
        return shipped.read_bytes()
    with _drawing:  # one at a time: each is drawn once
        return drawn(entry.name, entry.sha256[MODEL])


def file_of(entry: ZooEntry) -> Path:
    """Where the picture of an agent with these weights ships, if it does."""
    return THUMBNAILS / f"{entry.name}-{entry.sha256[MODEL][:8]}.png"


@lru_cache(maxsize=64)
def drawn(name: str, sha256: str) -> bytes:
    """What an agent's game shows after some seconds, or at its end, as PNG; kept until its weights are others."""
    agent, greedy = zoo.load(name), zoo.entries()[name].score.greedy
    left = screen_of(agent.recipe).rate * (SECONDS_OF_FIRST + SECONDS_PER_CHUNK * (FIRST_CHUNK - 1))
    with closing(playback_steps(agent, 0, greedy=greedy, watched=True)) as game:
        for moment in game:
            left -= len(moment.pictures)
            if left <= 0 or moment.over:
                break
    return iio.imwrite("<bytes>", moment.pictures[-1], extension=".png")
