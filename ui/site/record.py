"""Games recorded as files: the chunks that the arcade would send to a player, some to a file named by its content."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import zoo
from a3c_core.agent import Agent
from a3c_core.envs import Protocol
from ui.broadcast.chunks import Part, Ticket, chunks, header_of, pixels_of
from ui.broadcast.sights import maps_from

SEEDS = (0, 1, 2)
"""Of a trained agent's games; of its snapshots' the first alone."""
MOST_SECONDS, MOST_SECONDS_YOUNG = 180.0, 90.0
"""How much of a game is recorded: of a trained agent's, and of a snapshot's."""
LOOKED_AT_SECONDS = 60.0
"""How much of the first game of a trained agent has maps of what it looks at, 25 ms of a core for each step."""
CHUNKS_OF_FIRST, CHUNKS_PER_FILE = 4, 30
"""The first file is short, so that the game can begin."""


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


def tickets(entry: zoo.ZooEntry, protocol: Protocol) -> Iterator[Ticket]:
    """The games of an agent that are recorded, by one protocol; its actions are chosen as they were scored."""
    for snapshot in reversed(entry.snapshots):
        for seed in SEEDS if snapshot == 100 else SEEDS[:1]:
            yield Ticket(entry.name, seed, snapshot, entry.score.greedy, protocol)


def record_all(name: str, protocol: Protocol, directory: Path) -> list[Recorded]:
    """Records all games of an agent by one protocol. Raises CheckpointError, HubError and OSError."""
    asked = list(tickets(zoo.entries()[name], protocol))
    return [record(ticket, zoo.load(name, ticket.snapshot), directory) for ticket in asked]


def record(ticket: Ticket, agent: Agent, directory: Path) -> Recorded:
    """Plays a game and writes its files into `directory`. Raises OSError."""
    seconds = MOST_SECONDS if ticket.snapshot == 100 else MOST_SECONDS_YOUNG
    looked_at = LOOKED_AT_SECONDS if ticket.snapshot == 100 and ticket.seed == SEEDS[0] else 0.0
    packed: list[bytes] = []
    steps, pictures, looks, rate, total, over = 0, 0, 0, 1, 0.0, False
    with closing(chunks(ticket, agent)) as game:
        for part in game:
            header = header_of(part.chunk)
            if about := header.get("game"):
                rate = about["rate"]
                about["kinds"], about["pictured"] = [], looked_at > 0 and part.sight is not None
            if part.sight and pictures < looked_at * rate:
                header["looks"] = dict(enumerate(maps_from(agent, part.sight, 0), start=part.first))
                looks += len(header["looks"])
            packed.append(repacked(part, header))
            steps, pictures, over = steps + len(header["pictures"]), pictures + sum(header["pictures"]), header["over"]
            total += part.rewards
            if pictures >= seconds * rate:
                break
    ends = [CHUNKS_OF_FIRST, *range(CHUNKS_OF_FIRST + CHUNKS_PER_FILE, len(packed) + CHUNKS_PER_FILE, CHUNKS_PER_FILE)]
    files = [written(packed[begin:end], directory) for begin, end in zip([0, *ends], ends, strict=False)]
    actions = "greedy" if ticket.greedy else "sampled"
    asked = (ticket.agent, ticket.seed, ticket.snapshot, actions, ticket.protocol)
    return Recorded(*asked, [file for file in files if file], round(total, 6), steps, over, looks)


def repacked(part: Part, header: dict) -> bytes:
    """The chunk with another header, and its pictures in as few bytes as can be: there is time for it."""
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    return len(text).to_bytes(4, "little") + text + zlib.compress(pixels_of(part.chunk), 9)


def written(packed: list[bytes], directory: Path) -> str:
    """Writes some chunks as one file, each with its length in four bytes before it, and returns its name: the hash of
    what it holds. Nothing where there are none."""
    if not packed:
        return ""
    data = gzip.compress(b"".join(len(chunk).to_bytes(4, "little") + chunk for chunk in packed), 9, mtime=0)
    name = f"{hashlib.sha256(data).hexdigest()[:20]}.bin"
    (directory / name).write_bytes(data)
    return name
