"""Which recorded games there are: those that ship with the page, and those of a directory that the host names."""

import json
import os
import sys
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

import zoo
from a3c_core.checkpoint import MODEL
from ui.recordings.record import Recorded
from ui.streaming.chunks import EpisodeSpec

SHIPPED = Path(__file__).parent / "shipped"
OWN = "A3C_RECORDINGS"
"""The environment variable that names a directory of `python -m zoo record`."""
INDEX = "index.json"
SCHEMA_VERSION = 1
"""Of the index and of the chunks in the files."""
KEPT = 64
"""Files whose content stays in memory."""


class Index(NamedTuple):
    """What a directory of recordings says of itself."""

    schema_version: Literal[SCHEMA_VERSION]
    weights: dict[str, str]
    """sha256 of each agent's, by its name: another agent of that name plays other games."""
    games: list[Recorded]


class Recording(NamedTuple):
    """A recorded game."""

    game: Recorded
    weights: str
    directory: Path


def write_index(games: list[Recorded], directory: Path) -> None:
    """Tells what was recorded into a directory, by the zoo's agents as they are. Raises OSError."""
    weights = {name: zoo.entries()[name].sha256[MODEL] for name in sorted({game.agent for game in games})}
    told = Index(SCHEMA_VERSION, weights, [game._asdict() for game in games])._asdict()
    (directory / INDEX).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def read(directory: Path) -> list[Recording]:
    """The recordings of a directory. Raises ValueError, with a sentence."""
    try:
        index = TypeAdapter(Index).validate_json((directory / INDEX).read_bytes())
    except OSError as error:
        raise ValueError(
            f"{directory} has no recordings ({error.strerror}): make them with python -m zoo record"
        ) from None
    except ValidationError:
        raise ValueError(
            f"{directory} holds no recordings of this version: make them anew with python -m zoo record"
        ) from None
    return [Recording(game, index.weights.get(game.agent, ""), directory) for game in index.games]


@cache
def all_recordings() -> list[Recording]:
    """Those of all directories, the host's first; what is wrong with one is printed once."""
    found = []
    for directory in [*([Path(own)] if (own := os.environ.get(OWN)) else []), SHIPPED]:
        try:
            found += read(directory)
        except ValueError as error:
            print(f"games are played that could be shown: {error}", file=sys.stderr)
    return found


def recordings() -> list[Recording]:
    """Whole games of the zoo's agents as they are now."""
    now = {name: entry.sha256[MODEL] for name, entry in zoo.entries().items()}
    return [each for each in all_recordings() if each.game.whole and now.get(each.game.agent) == each.weights]


def recording_of(spec: EpisodeSpec) -> Recorded | None:
    """The recorded game of a spec, if there is one."""
    if spec.nudges or spec.takeovers or spec.commit:
        return None
    asked = (spec.agent, spec.seed, spec.snapshot, "greedy" if spec.greedy else "sampled", spec.protocol)
    return next((each.game for each in recordings() if each.game[: len(asked)] == asked), None)


@lru_cache(maxsize=KEPT)
def content(name: str) -> bytes | None:
    """What is in the file of that name, for ever: it is named by its content. None where no recording has it."""
    found = (each.directory / name for each in all_recordings() if name in each.game.files)
    return next((path.read_bytes() for path in found if path.is_file()), None)
