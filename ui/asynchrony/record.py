"""What `python -m benchmarks.asynchrony` has made of the trainings: numbers with their intervals, ready to be shown."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from training.compare import BASE

RECORD = Path(__file__).with_name("record.json")
STRICT = ConfigDict(extra="forbid")


class Estimate(NamedTuple):
    """An interquartile mean with the ends of its 95 % interval. None is beyond all numbers: not within the training."""

    low: float | None
    middle: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Curve:
    """Interquartile means of the return with their intervals, from where all trainings have a number."""

    x: tuple[float, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Way:
    """All trainings of one kind."""

    workers: int
    handover: str
    setting: str
    changes: dict[str, Any]
    """Fields of the game's recipe that were changed."""
    seeds: int
    reached: dict[str, int]
    """For each goal, the trainings that reached it."""
    measures: dict[str, Estimate]
    stalest: tuple[float, ...]
    """Shares of the gradients that had staleness 0, 1 and so on; the last is of all that were staler."""
    curves: dict[str, Curve]
    """The mean return of the last 100 training games by steps, by seconds and by updates."""
    against: dict[str, dict[str, Estimate]] = Field(default_factory=dict)
    """What it is compared with, and for each measure how many times as much, or how much more, it is."""

    @property
    def is_a2c(self) -> bool:
        """Whether there is a single worker."""
        return self.workers == 1


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Study:
    """One comparison: of numbers of workers and hand-overs, or of settings with their base."""

    game: str
    total_envs: int
    steps: int
    machine: dict[str, str | int]
    goals: tuple[str, ...]
    """Mean returns, the highest last."""
    ways: tuple[Way, ...]

    @property
    def ablates(self) -> bool:
        """Whether it compares settings."""
        return any(way.setting != BASE for way in self.ways)

    @property
    def seeds(self) -> str:
        """How many trainings there are of each kind."""
        counts = sorted({way.seeds for way in self.ways})
        return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Record:
    """All that was measured."""

    studies: tuple[Study, ...]

    def comparison(self) -> Study | None:
        """That of workers and hand-overs; None where it was not made."""
        return next((study for study in self.studies if not study.ablates), None)

    def ablations(self) -> list[Study]:
        """Those of settings."""
        return [study for study in self.studies if study.ablates]


@cache
def record(path: Path = RECORD) -> Record:
    """What was measured; empty where nothing was, or where the file cannot be read."""
    try:
        return TypeAdapter(Record).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return Record(studies=())
