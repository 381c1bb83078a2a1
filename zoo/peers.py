"""What others have published for the same games: scores to be seen beside ours, each with its source and protocol."""

import json
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

PEERS = Path(__file__).parent / "peers.json"


class Source(NamedTuple):
    """Where scores were published, and how they were taken."""

    title: str
    url: str
    protocol: str


class Peer(NamedTuple):
    """Somebody else's mean score in one environment."""

    env: str
    """Gymnasium id of ours; the source may use another version of the same game."""
    player: str
    score: float
    source: Source
    highest: float | None = None
    """The other end, where the source gives a range."""
    kind: Literal["peer", "human", "random"] = "peer"


@cache
def peers() -> tuple[Peer, ...]:
    """All of them."""
    kept = json.loads(PEERS.read_text(encoding="utf-8"))
    sources = {name: Source(**source) for name, source in kept["sources"].items()}
    return tuple(Peer(**peer | {"source": sources[peer["source"]]}) for peer in kept["peers"])


def peers_of(env: str) -> tuple[Peer, ...]:
    """Those of one environment."""
    return tuple(peer for peer in peers() if peer.env == env)
