"""A ZooEntry is one agent's record: what it is, what it scored and how, what made it. `training keep` writes them."""

import hashlib
import os
import re
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from a3c_core.agent import Agent
from a3c_core.checkpoint import (
    MODEL,
    RECIPE,
    SNAPSHOTS,
    CheckpointError,
    load_agent,
    parse,
    read_record,
    refuse_special,
    write_record,
)
from a3c_core.evaluation import Score
from a3c_core.recipe import Recipe

ENTRIES = Path(__file__).parent / "entries"
NAME = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
WEIGHTS = Path(__file__).parent / "weights"
OWN = "A3C_ZOO"
"""The environment variable that names a directory for the user's own agents."""
IN_CHECKOUT = (Path(__file__).parents[1] / "pyproject.toml").is_file()
"""Whether this is a checkout, whose zoo may change, and no installed package."""
CONFIG = "config.json"
"""The record beside a downloaded agent; the Hub counts its downloads as those of the agent."""
File = Annotated[str, Field(pattern=rf"^({SNAPSHOTS}/[1-9][0-9]?/)?({re.escape(MODEL)}|{re.escape(RECIPE)})$")]
"""A file of a checkpoint or of a snapshot, by its path; a record names no others, which might lie anywhere."""
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Published:
    """An agent's copy on the Hub, of which nothing can change."""

    repo: str
    """user/name."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    """The commit."""
    sha256: dict[str, str]
    """Hash of each file that was uploaded."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class ZooEntry:
    """One agent of the zoo."""

    name: Annotated[str, Field(pattern=NAME)]
    """What `zoo.load` takes."""
    summary: Annotated[str, Field(max_length=300)]
    """One line about the agent."""
    limits: Annotated[str, Field(max_length=600)] = ""
    """What it does badly, as seen in its games, and what its record cannot tell, in a few sentences."""
    licence: str = "MIT"
    recipe: Recipe
    """What it was trained by; at the end, where that was changed on the way."""
    training: Recipe | None = None
    """The recipe of the whole run, with its schedule, where it went through more than one phase."""
    command: str
    """The command that trains it again."""
    hours: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Wall-clock hours of its training; of a run that was chosen among branches, those of the branch that was kept."""
    machine: str
    """What it was trained on."""
    parameters: int
    """Number of weights."""
    score: Score
    """By the classic protocol, the only one but for Atari."""
    sticky_score: Score | None = None
    """By the protocol with sticky actions, for Atari."""
    learning: dict[int, Annotated[float, Field(allow_inf_nan=False)]] = Field(default_factory=dict)
    """Mean return of 20 games with actions drawn from the policy, by the share of its training in percent."""
    sha256: dict[File, Hash]
    """Hash of each file of the checkpoint and of its snapshots, by its path in the directory."""
    published: Published | None = None
    """Where the Hub has it, if it has."""

    @property
    def directory(self) -> Path:
        """The checkpoint that ships with the zoo, or the user's own of that name."""
        own = [place for home in homes()[1:] if (place := home.weights / self.name).is_dir()]
        return own[0] if own else WEIGHTS / self.name

    @property
    def snapshots(self) -> list[int]:
        """Shares of the training, in percent, of which the agent as it was then is kept; 0 is before training."""
        kept = {int(path.parts[1]) for path in map(PurePosixPath, self.sha256) if path.parts[0] == SNAPSHOTS}
        return sorted({0, 100} | kept)

    @property
    def whole(self) -> Recipe:
        """The recipe of its whole training."""
        return self.training or self.recipe

    @property
    def done(self) -> int:
        """How much of its training is done, in percent: steps may be left."""
        return min(100, 100 * self.score.steps // self.recipe.steps)

    @property
    def scores(self) -> list[Score]:
        """By each protocol that it was scored by."""
        return [score for score in (self.score, self.sticky_score) if score]

    def open(self, snapshot: int = 100) -> Agent:
        """The agent after `snapshot` percent of its training, from the files that ship with the zoo, else from the Hub.

        Raises CheckpointError where its files are not those that the entry names, ValueError for another snapshot,
        HubError where it has to be fetched and can't be.
        """
        return load_agent(self.place_of(snapshot)) if snapshot else Agent.untrained(self.recipe)

    def place_of(self, snapshot: int) -> Path:
        """The directory with the agent's files, each of which has the hash that the entry names; raises as `open`."""
        if snapshot not in self.snapshots:
            raise ValueError(
                f"{self.name} has no snapshot {snapshot}: choose one of {', '.join(map(str, self.snapshots))}"
            )
        place = self.directory if snapshot == 100 else self.directory / SNAPSHOTS / str(snapshot)
        if self.published and not self.directory.exists():
            place = fetched(self.published.repo, self.published.revision, snapshot)
        for file, name in zip(checkpoint_files(snapshot), (RECIPE, MODEL), strict=True):
            if hash_of(place / name) != self.sha256.get(file):
                raise CheckpointError(f"{place / name} is not the file that {self.name}'s record names (its sha256 "
                                      "differs): the copy is damaged. Get the zoo again.")  # fmt: skip
        return place

    def check(self) -> None:
        """Compares all files of the agent and its snapshots with their hashes; raises as `open`."""
        for snapshot in self.snapshots:
            if snapshot:
                self.place_of(snapshot)


class Home(NamedTuple):
    """A directory of records and one of checkpoints."""

    entries: Path
    weights: Path


def homes() -> list[Home]:
    """Where agents are: what ships with the zoo and, if A3C_ZOO names one, the directory of the user's own."""
    own = os.environ.get(OWN)
    return [Home(ENTRIES, WEIGHTS), *([Home(Path(own, "entries"), Path(own, "weights"))] if own else [])]


def in_zoo(directory: Path) -> bool:
    """Whether a directory is a checkpoint of the zoo, whose record names the hashes of its files."""
    return any(directory.resolve().is_relative_to(home.weights.resolve()) for home in homes())


def home_to_keep() -> Home:
    """Where new agents go: A3C_ZOO, else the zoo of a checkout. Raises ValueError where there is neither."""
    if not (IN_CHECKOUT or os.environ.get(OWN)):
        raise ValueError(f"an installed zoo does not change: set {OWN} to a directory for your own agents")
    return homes()[-1]


def checkpoint_files(snapshot: int = 100) -> list[str]:
    """The files of an agent, or of one of its snapshots, by their paths in its directory or repository."""
    place = "" if snapshot == 100 else f"{SNAPSHOTS}/{snapshot}/"
    return [f"{place}{RECIPE}", f"{place}{MODEL}"]


def entries() -> dict[str, ZooEntry]:
    """All agents of the zoo by name, in the order of their names; of two with one name the user's own.

    An agent whose record is broken is left out: see `broken_entries`.
    """
    return {record.name: record for record in _records().values() if isinstance(record, ZooEntry)}


def broken_entries() -> dict[str, CheckpointError]:
    """The records that cannot be read, by the names of their files: each with what is wrong."""
    return {name: record for name, record in _records().items() if isinstance(record, CheckpointError)}


def _records() -> dict[str, ZooEntry | CheckpointError]:
    found = {path.stem: path for home in homes() for path in home.entries.glob("*.json")}
    return {name: _read_or_error(path) for name, path in sorted(found.items())}


def _read_or_error(path: Path) -> ZooEntry | CheckpointError:
    try:
        return read_entry(path)
    except CheckpointError as error:
        return error


def read_entry(path: Path) -> ZooEntry:
    """The record in one file. Raises CheckpointError."""
    try:
        file = path.stat()
    except OSError:
        return _read(path)  # which says what is wrong
    return _read_once(path, file.st_ino, file.st_mtime_ns, file.st_size)


def _read(path: Path) -> ZooEntry:
    return parse(ZooEntry, read_record(path), path)


@lru_cache(maxsize=256)
def _read_once(path: Path, *_: int) -> ZooEntry:
    """As long as the file is the same: the page asks for the zoo's records many times a second."""
    return _read(path)


def write_entry(entry: ZooEntry) -> Path:
    """Writes an agent's record; returns its file. Raises CheckpointError, and ValueError as `home_to_keep`."""
    path = home_to_keep().entries / f"{entry.name}.json"
    write_record(path, asdict(entry))
    return path


def fetched(repo: str, revision: str | None = None, snapshot: int = 100) -> Path:
    """The directory in the Hub's cache that holds that checkpoint of a repository; raises as `load` does."""
    from zoo import hub  # the zoo's own agents play where the Hub's client is not installed

    return hub.fetch(repo, checkpoint_files(snapshot), revision)[checkpoint_files(snapshot)[0]].parent


def hash_of(path: Path) -> str:
    """sha256 of a file, in hex. Raises CheckpointError."""
    refuse_special(path)
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}. Get the zoo again.") from None


def hashes(directory: Path) -> dict[str, str]:
    """sha256 of each file that makes the checkpoint in `directory` and its snapshots, by path."""
    files = [directory / MODEL, directory / RECIPE, *sorted((directory / SNAPSHOTS).glob("*/*.*"))]
    return {path.relative_to(directory).as_posix(): hash_of(path) for path in files}
