"""A stretch of a streamed game as a GIF, made of its chunks: nothing is played for it again."""

import io
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from ui.broadcast.stream import SECONDS_PER_CHUNK, Part, header_of

GIF_SECONDS = 20
GIF_CHUNKS = round(GIF_SECONDS / SECONDS_PER_CHUNK)
PICTURES_PER_SECOND = 15


class Stretch(NamedTuple):
    """Chunks in a row, and what the first chunk of their game tells of it."""

    about: dict[str, Any]
    parts: Sequence[Part]


def gif_of(stretch: Stretch) -> bytes:
    """The stretch, in the game's own colours and its true proportions, at its true speed."""
    about = stretch.about
    every = round(about["rate"] / PICTURES_PER_SECOND)
    size, (rows, columns) = (about["height"], about["width"]), about["pixel"]
    pixels = [zlib.decompress(part.chunk[4 + header_of(part.chunk).length :]) for part in stretch.parts]
    colours = pixels[-1][:768]  # numbers are only ever added to a palette: the latest knows them all
    numbers = np.concatenate([_unfolded(data[768:], size) for data in pixels])[::every]
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
        comment=_title(stretch).encode(),
    )
    return file.getvalue()


def _picture(numbers: np.ndarray, colours: bytes) -> Image.Image:
    picture = Image.fromarray(numbers)
    picture.putpalette(colours)
    return picture


def _unfolded(data: bytes, size: tuple[int, int]) -> np.ndarray:
    """The pictures of a chunk, each of which was XORed with the one before."""
    return np.bitwise_xor.accumulate(np.frombuffer(data, np.uint8).reshape(-1, *size))


def _durations(count: int, seconds: float) -> list[int]:
    """Milliseconds of each picture: GIF counts hundredths of a second, so that some are longer than others."""
    ends = [round(100 * seconds * i) for i in range(count + 1)]
    return [10 * (end - start) for start, end in pairwise(ends)]


def _title(stretch: Stretch) -> str:
    about = stretch.about
    return f"A3C Arcade: {about['agent']}, seed {about['seed']}, from step {stretch.parts[0].first}"
