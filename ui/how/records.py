"""What the page How it works shows of real games and real trainings. `python -m ui.how.record` makes it anew."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from ui.how.trace import Update

RECORDS = Path(__file__).parent / "records.json"


class RecordedGame(NamedTuple):
    """The beginning of a game that an agent of the zoo played."""

    agent: str
    snapshot: int
    sha256: str
    """Of the weights that played."""
    seed: int
    greedy: bool
    actions: list[int]
    values: list[float]
    """The agent's before each action."""
    rewards: list[float]
    """What each action earned."""


class Picture(NamedTuple):
    """A picture as a PNG in base64."""

    step: int
    png: str


class Training(NamedTuple):
    """A CartPole training, moment by moment."""

    change: dict[str, float]
    """What differs from the zoo's recipe."""
    steps: list[int]
    returns: list[float]
    """Mean return of the last 100 training games."""
    entropy: list[float]


class Records(NamedTuple):
    """Everything that was recorded."""

    trained: RecordedGame
    """Pong by the zoo's agent, as it is scored."""
    young: RecordedGame
    """Pong by the same agent as it was after an eighth of its training, its actions drawn as in training."""
    frames: list[Picture]
    """The four frames of one observation of that game."""
    trace: list[Update]
    """Updates of two workers that train CartPole, one after the other."""
    staleness: dict[int, dict[int, int]]
    """By the number of workers: how many updates had which staleness."""
    trainings: list[Training]


@cache
def records() -> Records:
    """The records, read once."""
    return TypeAdapter(Records).validate_json(RECORDS.read_bytes())
