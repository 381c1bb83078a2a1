"""A ZooEntry is one agent's record: what it is, what it scored and how, what made it. `training keep` writes them."""

import difflib
import hashlib
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from a3c_core.agent import Agent
from a3c_core.checkpoint import MODEL, RECIPE, SNAPSHOTS, CheckpointError, load_agent, parse, read_record, write_record
from a3c_core.play import Score
from a3c_core.recipe import Recipe

ENTRIES = Path(__file__).parent / "entries"
NAME = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
WEIGHTS = Path(__file__).parent / "weights"


class UnknownAgent(ValueError):
    """There is no agent of that name; the message tells which there are."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class ZooEntry:
    """One agent of the zoo."""

    name: Annotated[str, Field(pattern=NAME)]
    """What `zoo.load` takes."""
    summary: Annotated[str, Field(max_length=300)]
    """One line about the agent."""
    licence: str = "MIT"
    recipe: Recipe
    """Everything needed to make it again."""
    command: str
    """The command that made it."""
    hours: float
    """Wall-clock hours of its training."""
    machine: str
    """What it was trained on."""
    parameters: int
    """Number of weights."""
    score: Score
    """By the classic protocol, the only one but for Atari."""
    sticky_score: Score | None = None
    """By the protocol with sticky actions, for Atari."""
    sha256: dict[str, str]
    """Hash of each file of the checkpoint and of its snapshots, by its path in the directory."""

    @property
    def directory(self) -> Path:
        """The checkpoint that ships with the zoo."""
        return WEIGHTS / self.name

    @property
    def snapshots(self) -> list[int]:
        """Shares of the training, in percent, of which the agent as it was then is kept; 0 is before training."""
        kept = {int(path.parts[1]) for path in map(PurePosixPath, self.sha256) if path.parts[0] == SNAPSHOTS}
        return sorted({0, 100} | kept)

    def open(self, snapshot: int = 100) -> Agent:
        """The agent after `snapshot` percent of its training.

        Raises CheckpointError where its files are not those that the entry names, ValueError for another snapshot.
        """
        if snapshot not in self.snapshots:
            raise ValueError(
                f"{self.name} has no snapshot {snapshot}: choose one of {', '.join(map(str, self.snapshots))}"
            )
        if snapshot == 0:
            return Agent.untrained(self.recipe)
        place = Path() if snapshot == 100 else Path(SNAPSHOTS, str(snapshot))
        for file in (MODEL, RECIPE):
            path = self.directory / place / file
            if hash_of(path) != self.sha256.get((place / file).as_posix()):
                raise CheckpointError(f"{path} is not the file that {self.name}'s record names (its sha256 differs): "
                                      "the copy is damaged. Get the zoo again.")  # fmt: skip
        return load_agent(self.directory / place)


def entries() -> dict[str, ZooEntry]:
    """All agents of the zoo by name, in the order of their names. Raises CheckpointError for a broken record."""
    found = [read_entry(path) for path in sorted(ENTRIES.glob("*.json"))]
    return {entry.name: entry for entry in found}


def read_entry(path: Path) -> ZooEntry:
    """The record in one file. Raises CheckpointError."""
    return parse(ZooEntry, read_record(path), path)


def write_entry(entry: ZooEntry) -> Path:
    """Writes an agent's record; returns its file. Raises CheckpointError."""
    path = ENTRIES / f"{entry.name}.json"
    write_record(path, asdict(entry))
    return path


def load(name: str | Path, snapshot: int = 100) -> Agent:
    """The agent of that name in the zoo, else the one in that checkpoint directory (`./cartpole` is a directory).

    With `snapshot`, the agent as it was after that percentage of its training. Raises UnknownAgent where there is
    neither, CheckpointError where the checkpoint is broken, ValueError for a snapshot that was not kept.
    """
    known = entries()
    if str(name) in known:
        return known[str(name)].open(snapshot)
    if Path(name).is_dir():
        return load_agent(Path(name) if snapshot == 100 else Path(name, SNAPSHOTS, str(snapshot)))
    raise UnknownAgent(unknown(str(name), known))


Actions = Literal["recorded", "greedy", "sampled"]
"""How an agent chooses: greedy takes the likeliest action, sampled draws from the policy, recorded does what its entry
in the zoo says, greedy where it has none."""


def is_greedy(name: str | Path, actions: Actions = "recorded") -> bool:
    """Whether that agent takes its likeliest actions."""
    entry = entries().get(str(name))
    return (entry is None or entry.score.greedy) if actions == "recorded" else actions == "greedy"


def unknown(name: str, known: dict[str, ZooEntry]) -> str:
    """What to say of a name that is not in the zoo."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"no agent and no directory {name!r}.{hint} Agents of the zoo: {', '.join(known)}."


def hash_of(path: Path) -> str:
    """sha256 of a file, in hex. Raises CheckpointError."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}. Get the zoo again.") from None


def hashes(directory: Path) -> dict[str, str]:
    """sha256 of each file that makes the checkpoint in `directory` and its snapshots, by path."""
    files = [directory / MODEL, directory / RECIPE, *sorted((directory / SNAPSHOTS).glob("*/*.*"))]
    return {path.relative_to(directory).as_posix(): hash_of(path) for path in files}
