"""Finding agents by name: in the zoo, in a directory, or in a repository on the Hub.

The Hub's client is imported only where a name needs the Hub: the zoo's own agents play without it.
"""

import difflib
import time
from pathlib import Path
from typing import Literal

from a3c_core.agent import Agent
from a3c_core.checkpoint import SNAPSHOTS, CheckpointError, load_agent
from zoo.entry import CONFIG, ZooEntry, broken_entries, checkpoint_files, entries, fetched, hash_of, read_entry


class UnknownAgent(ValueError):
    """There is no agent of that name; the message tells which there are."""


def load(name: str | Path, snapshot: int = 100, *, revision: str | None = None, namespace: str | None = None) -> Agent:
    """The agent of that name in the zoo, else in that checkpoint directory, else in that repository on the Hub.

    Args:
        name: an agent of the zoo, a directory (`./cartpole` is one) or anybody's `user/repository` of our format.
        snapshot: take the agent as it was after that percentage of its training.
        revision: take it from the Hub at that commit, tag or branch. A commit that was fetched once costs no request.
        namespace: take the zoo's agent from that user's repository on the Hub.

    Raises UnknownAgent where there is none, CheckpointError where the checkpoint is broken or not ours, ValueError for
    a snapshot that was not kept, HubError where the Hub does not hand it out.
    """
    known = entries()
    _refuse_broken(name)
    if str(name) in known and not (revision or namespace):
        return known[str(name)].open(snapshot)
    if Path(name).is_dir() and not revision:
        place = Path(name) if snapshot in (0, 100) else Path(name, SNAPSHOTS, str(snapshot))
    elif repo := repository(str(name), namespace):
        place = fetched(repo, revision, snapshot or 100)
    else:
        raise UnknownAgent(unknown(str(name), known))
    agent = load_agent(place)
    return agent if snapshot else Agent.untrained(agent.recipe)


def repository(name: str, namespace: str | None = None) -> str | None:
    """The repository on the Hub that is meant by `name`: user/repository, or an agent of the zoo; None for neither."""
    entry = entries().get(name)
    if entry is None and "/" not in name:
        return None
    from zoo import hub

    if entry is None:
        return hub.repository(name)
    if entry.published and not namespace:
        return entry.published.repo
    return hub.repository_of(name, entry.recipe.env, hub.namespace_of(namespace))


def entry_of(name: str) -> ZooEntry:
    """The record of an agent of the zoo. Raises UnknownAgent where there is none, CheckpointError for a broken one."""
    _refuse_broken(name)
    known = entries()
    if name not in known:
        raise UnknownAgent(unknown(name, known))
    return known[name]


def find(name: str | Path) -> ZooEntry | None:
    """The record of an agent of the zoo or of a repository on the Hub; None for a directory.

    The record of a repository is a claim of its author. Raises as `load` does.
    """
    entry = entries().get(str(name))
    _refuse_broken(name)
    if entry or Path(name).is_dir():
        return entry
    repo = repository(str(name))
    if repo is None:
        raise UnknownAgent(unknown(str(name), entries()))
    from zoo import hub

    path = hub.fetch(repo, [CONFIG])[CONFIG]
    return read_entry(path)


def agent_files(repo: str, revision: str | None = None, *, seconds: float = 30.0) -> dict[str, Path]:
    """All that makes the agent of a repository, in the cache: its checkpoint, its record and its snapshots.

    Raises HubError where the Hub does not hand them out within `seconds`, CheckpointError for files that are not those
    that the record names.
    """
    from zoo import hub

    ends = time.monotonic() + seconds
    record = hub.fetch(repo, [CONFIG], revision, seconds=seconds)[CONFIG]
    named, commit = read_entry(record).sha256, record.parent.name  # the cache's folders are named after commits
    names = dict.fromkeys([*checkpoint_files(), *named])
    files = hub.fetch(repo, [*names, CONFIG], commit, seconds=ends - time.monotonic())
    for file in names:
        if hash_of(files[file]) != named.get(file):
            raise CheckpointError(
                f"{file} of {repo} is not the file that its record names (its sha256 differs): choose another one."
            )
    return files


def _refuse_broken(name: str | Path) -> None:
    if error := broken_entries().get(str(name)):
        raise error


Actions = Literal["recorded", "greedy", "sampled"]
"""How an agent chooses: greedy takes the likeliest action, sampled draws from the policy, recorded does what its record
says, greedy where it has none."""


def is_greedy(name: str | Path, actions: Actions = "recorded") -> bool:
    """Whether that agent takes its likeliest actions."""
    if actions != "recorded":
        return actions == "greedy"
    entry = find(name)
    if entry is None and (record := Path(name) / CONFIG).is_file():  # a downloaded agent's
        entry = read_entry(record)
    return entry is None or entry.score.greedy


def unknown(name: str, known: dict[str, ZooEntry]) -> str:
    """What to say of a name that is not in the zoo."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"no agent and no directory {name!r}.{hint} Agents of the zoo: {', '.join(known)}."
