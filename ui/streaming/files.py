"""Streamed games as files, made of their chunks: nothing is played for them again."""

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from anyio import CapacityLimiter
from PIL import Image

from playback.episode import RenderedEpisode
from playback.video import write_mp4
from ui.admission import Admission, PerVisitor
from ui.episodes import Recording, Shelf, new_video
from ui.streaming.chunks import SECONDS_PER_CHUNK, Chunk, EpisodeSpec, header_of, pixels_of
from ui.streaming.stream import CAN_WAIT_SECONDS, Broadcast, Broadcasts

GIF_SECONDS = 20
GIF_CHUNKS = round(GIF_SECONDS / SECONDS_PER_CHUNK)
GIF_PICTURES_PER_SECOND = 15
KEPT = 64
"""Videos that are kept."""
EACH = 4
"""Files of one visitor that may be under way or waiting."""


def mp4_of(broadcast: Broadcast, path: Path) -> Recording:
    """A whole game as a video, written while it is played or, where it has been, at once. Raises BrokenOff, OSError."""
    first = next(broadcast.parts(CAN_WAIT_SECONDS))
    about = header_of(first.chunk)["game"]
    film = RenderedEpisode(_pictures(broadcast.parts(CAN_WAIT_SECONDS), about), about["rate"], tuple(about["pixel"]))
    write_mp4(film, path, title=_title(about), comment=_conditions(about), small=True)
    told = [header_of(part.chunk) for part in broadcast.parts()]
    rewards, values = (np.concatenate([header[key] for header in told]) for key in ("rewards", "values"))
    return Recording(path, about["env"], about["seed"], rewards.cumsum(), values)


def _pictures(parts: Iterable[Chunk], about: dict[str, Any]) -> Iterator[np.ndarray]:
    """The pictures of some chunks, each uint8 [height, width, 4]: looking a colour up as one number of four bytes is
    ten times as fast as three of one. Few rows change from one to the next, which is made of the same memory."""
    opaque = np.full((256, 4), 255, np.uint8)
    picture = np.zeros((about["height"], about["width"]), np.uint32)
    for part in parts:
        unpacked = _unpacked(part, about)
        opaque[:, :3] = np.frombuffer(unpacked.colours, np.uint8).reshape(256, 3)
        colours = opaque.view(np.uint32)[:, 0]
        for numbers, changed in zip(unpacked.numbers, unpacked.changed, strict=True):
            picture[changed] = colours[numbers[changed]]
            yield picture.view(np.uint8).reshape(*numbers.shape, 4)


class Stretch(NamedTuple):
    """Chunks in a row, and what the first chunk of their game tells of it."""

    about: dict[str, Any]
    parts: Sequence[Chunk]


def gif_of(stretch: Stretch) -> bytes:
    """The stretch, in the game's own colours and its true proportions, at its true speed."""
    about = stretch.about
    every, (rows, columns) = round(about["rate"] / GIF_PICTURES_PER_SECOND), about["pixel"]
    unpacked = [_unpacked(part, about) for part in stretch.parts]
    colours = unpacked[-1].colours  # numbers are only ever added to a palette: the latest knows them all
    numbers = np.concatenate([chunk.numbers for chunk in unpacked])[::every]
    pictures = (_picture(picture.repeat(rows, 0).repeat(columns, 1), colours) for picture in numbers)
    file = io.BytesIO()
    next(pictures).save(
        file,
        "GIF",
        save_all=True,
        append_images=pictures,
        duration=_durations(len(numbers), every / about["rate"]),
        loop=0,
        optimize=False,
        comment=f"{_title(about)}, from step {stretch.parts[0].first}".encode(),
    )
    return file.getvalue()


def _picture(numbers: np.ndarray, colours: bytes) -> Image.Image:
    picture = Image.fromarray(numbers)
    picture.putpalette(colours)
    return picture


class Unpacked(NamedTuple):
    """The pictures of a chunk."""

    colours: bytes
    """256 times red, green, blue."""
    numbers: np.ndarray
    """uint8 [pictures, height, width] of a colour."""
    changed: np.ndarray
    """bool [pictures, height]: the rows that differ from the picture before; of the first, all."""


def _unpacked(part: Chunk, about: dict[str, Any]) -> Unpacked:
    data = pixels_of(part.chunk)
    folded = np.frombuffer(data, np.uint8, offset=768).reshape(-1, about["height"], about["width"])
    changed = folded.any(2)
    changed[0] = True
    numbers = folded.copy()
    for before, picture in pairwise(numbers):
        picture ^= before  # ten times as fast as bitwise_xor.accumulate
    return Unpacked(data[:768], numbers, changed)


def _durations(count: int, seconds: float) -> list[int]:
    """Milliseconds of each picture: GIF counts hundredths of a second, so that some are longer than others."""
    ends = [round(100 * seconds * i) for i in range(count + 1)]
    return [10 * (end - start) for start, end in pairwise(ends)]


def _title(about: dict[str, Any]) -> str:
    return f"A3C Arcade: {about['agent']}, seed {about['seed']}"


def _conditions(about: dict[str, Any]) -> str:
    actions = "greedy" if about["greedy"] else "sampled"
    nudges = f", nudges {about['nudges']}" if about["nudges"] else ""
    takeovers = f", taken over by hand {about['takeovers']}" if about["takeovers"] else ""
    rules = f"{about['env']}, {about['protocol']} protocol, {actions} actions, {about['snapshot']} % trained"
    return f"{rules}{nudges}{takeovers}"


class Files:
    """Files that visitors ask for, each made when its turn has come; videos are kept for all who ask."""

    def __init__(self, broadcasts: Broadcasts) -> None:
        self._broadcasts = broadcasts
        self._shelf = Shelf(size=KEPT)
        self.line = Admission(at_once=max(1, (os.cpu_count() or 1) - 1), waiting=6)
        """A video takes a core or two for seconds, a GIF a core for a second or two and some 300 MB. One core is the
        page's, or all who open it meanwhile would wait."""
        self.of_one_visitor = PerVisitor(EACH, "files are being made")
        self.threads = CapacityLimiter(16)
        """For who waits for a file, be it another's: the page's own stay free. Some are left to refuse the others."""

    def video(self, spec: EpisodeSpec, address: str | None = None) -> Recording:
        """A game as a video, made now or earlier; it counts among those of who is at that address.

        Raises Busy and Full where there is no room, CheckpointError, OSError and BrokenOff where it can't be.
        """

        def make() -> Recording:
            with self.line.turn(), new_video(file_name(spec)) as path:
                return mp4_of(self._broadcasts.get(spec, address), path)

        with self.of_one_visitor.one(address):
            return self._shelf.get(spec, make)

    def gif(self, stretch: Stretch) -> bytes:
        """A stretch of a game as a GIF. Raises Busy."""
        with self.line.turn():
            return gif_of(stretch)


def file_name(spec: EpisodeSpec) -> str:
    """What a game is called as a file."""
    return f"{spec.agent.replace('/', '-')}-seed-{spec.seed}"
