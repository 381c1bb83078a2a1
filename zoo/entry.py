"""A ZooEntry is one agent's record: what it is, what it scored and how, what made it. `training keep` writes them."""

import difflib
import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from a3c_core.agent import Agent
from a3c_core.checkpoint import MODEL, RECIPE, CheckpointError, load_agent, parse, read_record, write_record
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
    sha256: dict[str, str]
    """Hash of each file of the checkpoint."""

    @property
    def directory(self) -> Path:
        """The checkpoint that ships with the zoo."""
        return WEIGHTS / self.name


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


def load(name: str | Path) -> Agent:
    """The agent of that name in the zoo, else the one in that checkpoint directory (`./cartpole` is a directory).

    Raises UnknownAgent where there is neither, CheckpointError where the checkpoint is broken.
    """
    known = entries()
    if str(name) not in known:
        if Path(name).is_dir():
            return load_agent(Path(name))
        raise UnknownAgent(unknown(str(name), known))
    entry = known[str(name)]
    for file, expected in entry.sha256.items():
        if hash_of(entry.directory / file) != expected:
            raise CheckpointError(f"{entry.directory / file} is not the file that {entry.name}'s record names (its "
                                  "sha256 differs): the copy is damaged. Get the zoo again.")  # fmt: skip
    return load_agent(entry.directory)


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
    """sha256 of each file that makes the checkpoint in `directory`."""
    return {file: hash_of(directory / file) for file in (MODEL, RECIPE)}
