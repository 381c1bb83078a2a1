"""A game recorded as files: the chunks that the arcade would send to a player, some to a file named by its content."""

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from a3c_core.agent import Agent
from a3c_core.envs import Protocol
from ui.streaming.chunks import Chunk, EpisodeSpec, chunks, header_of, pixels_of
from ui.streaming.saliency import maps_from


class Most(NamedTuple):
    """How much a file holds: it ends with the last chunk that both leave room for."""

    chunks: int
    size: int
    """Bytes of them, before they are packed together."""


FIRST, LATER = Most(4, 2**16), Most(30, 2**18)
"""A game's first file is short, so that the game can begin."""


class Recorded(NamedTuple):
    """A game in the index."""

    agent: str
    seed: int
    snapshot: int
    actions: str
    """greedy or sampled."""
    protocol: Protocol
    files: list[str]
    """In order, by name."""
    total: float
    """The return, as far as it is recorded."""
    steps: int
    whole: bool
    """Whether it is recorded to its end."""
    looks: int
    """Steps with a map of what the agent looks at."""


def record(
    spec: EpisodeSpec,
    agent: Agent,
    directory: Path,
    *,
    seconds: float = math.inf,
    looked_at: float = 0.0,
    about: dict[str, Any] | None = None,
) -> Recorded:
    """Plays a game, for so many `seconds` at most, and writes its files into `directory`. Raises OSError.

    Steps of its first `looked_at` seconds get maps of what the agent looks at, each 25 ms of a core; `about` changes
    what the first chunk tells of the game.
    """
    packed: list[bytes] = []
    steps, pictures, looks, rate, total, over = 0, 0, 0, 1, 0.0, False
    with closing(chunks(spec, agent)) as game:
        for part in game:
            header = header_of(part.chunk)
            if told := header.get("game"):
                rate = told["rate"]
                told |= about or {}
            if part.sight and pictures < looked_at * rate:
                header["looks"] = dict(enumerate(maps_from(agent, part.sight, 0), start=part.first))
                looks += len(header["looks"])
            packed.append(repacked(part, header))
            steps, pictures, over = steps + len(header["pictures"]), pictures + sum(header["pictures"]), header["over"]
            total += part.rewards
            if pictures >= seconds * rate:
                break
    files = [written(some, directory) for some in parted(packed)]
    actions = "greedy" if spec.greedy else "sampled"
    asked = (spec.agent, spec.seed, spec.snapshot, actions, spec.protocol)
    return Recorded(*asked, files, round(total, 6), steps, over, looks)


def repacked(part: Chunk, header: dict) -> bytes:
    """The chunk with another header, and its pictures in as few bytes as can be: there is time for it."""
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    return len(text).to_bytes(4, "little") + text + zlib.compress(pixels_of(part.chunk), 9)


def parted(packed: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The chunks of each file."""
    some: list[bytes] = []
    most = FIRST
    for chunk in packed:
        if some and (len(some) == most.chunks or sum(map(len, some)) + len(chunk) > most.size):
            yield some
            some, most = [], LATER
        some.append(chunk)
    if some:
        yield some


def written(packed: list[bytes], directory: Path) -> str:
    """Writes some chunks as one file, each with its length in four bytes before it, and returns its name: the hash of
    what it holds."""
    data = gzip.compress(b"".join(len(chunk).to_bytes(4, "little") + chunk for chunk in packed), 9, mtime=0)
    name = f"{hashlib.sha256(data).hexdigest()[:20]}.bin"
    (directory / name).write_bytes(data)
    return name
