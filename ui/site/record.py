"""Which games of an agent the static arcade has, recorded as files."""

from collections.abc import Iterator
from pathlib import Path

import zoo
from a3c_core.agent import Agent
from a3c_core.envs import Protocol, is_atari
from ui.recordings import record as recordings
from ui.recordings.record import Recorded
from ui.streaming.chunks import EpisodeSpec

SEEDS = (0, 1, 2)
"""Of a trained agent's games; of its snapshots' the first alone."""
MOST_SECONDS, MOST_SECONDS_YOUNG = 180.0, 90.0
"""How much of a game is recorded: of a trained agent's, and of a snapshot's."""
LOOKED_AT_SECONDS = 60.0
"""How much of the first game of a trained agent has maps of what it looks at."""


def specs(entry: zoo.ZooEntry, protocol: Protocol) -> Iterator[EpisodeSpec]:
    """The games of an agent that are recorded, by one protocol; its actions are chosen as they were scored."""
    for snapshot in reversed(entry.snapshots):
        for seed in SEEDS if snapshot == 100 else SEEDS[:1]:
            yield EpisodeSpec(entry.name, seed, snapshot, entry.score.greedy, protocol)


def record_all(name: str, protocol: Protocol, directory: Path) -> list[Recorded]:
    """Records all games of an agent by one protocol. Raises CheckpointError, HubError and OSError."""
    asked = list(specs(zoo.entries()[name], protocol))
    return [record(spec, zoo.load(name, spec.snapshot), directory) for spec in asked]


def record(spec: EpisodeSpec, agent: Agent, directory: Path) -> Recorded:
    """Records a game for a page that nobody can push it on, nor ask what its agent looks at. Raises OSError."""
    seconds = MOST_SECONDS if spec.snapshot == 100 else MOST_SECONDS_YOUNG
    looked_at = LOOKED_AT_SECONDS if spec.snapshot == 100 and spec.seed == SEEDS[0] else 0.0
    about = {"kinds": [], "pictured": looked_at > 0 and is_atari(agent.recipe.env)}
    return recordings.record(spec, agent, directory, seconds=seconds, looked_at=looked_at, about=about)
