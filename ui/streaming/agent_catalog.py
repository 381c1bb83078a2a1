"""Who can be watched: the agents of the zoo, and those that visitors have had fetched from the Hub."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError
from a3c_core.recipe import Recipe
from zoo import ZooEntry

MOST_GUESTS = 16
"""Strangers' agents that stay; the one not asked for longest leaves for another."""

LANDING = "breakout"
"""Whom a page plays before anything was chosen."""


class Watchable(NamedTuple):
    """An agent that can be watched."""

    name: str
    recipe: Recipe
    snapshots: Sequence[int]
    greedy: bool
    """How it plays unless a visitor wants it otherwise: as it was scored."""
    open: Callable[[int], Agent]
    """The agent at one of its snapshots; raises as `zoo.load` does."""
    commit: str = ""
    """The commit of a fetched repository; the zoo's agents have only one."""


_guests: OrderedDict[str, Watchable] = OrderedDict()
_lock = Lock()


def zoo_names() -> list[str]:
    """The zoo's agents in the order of their names, but LANDING first."""
    return sorted(zoo.entries(), key=lambda name: name != LANDING)


def watchable(name: str) -> Watchable | None:
    """The agent of that name, of the zoo or a guest; None where there is none."""
    if entry := zoo.entries().get(name):
        return Watchable(name, entry.recipe, entry.snapshots, entry.score.greedy, lambda share: zoo.load(name, share))
    with _lock:
        if name in _guests:
            _guests.move_to_end(name)
        return _guests.get(name)


def welcome(name: str, agent: Agent, record: ZooEntry, *, commit: str) -> None:
    """Lets a fetched agent be watched, as it is and at the snapshots that its record names."""

    def at(share: int) -> Agent:
        if share == 100:
            return agent
        if share == 0:
            return Agent.untrained(agent.recipe)
        younger = zoo.load(name, share, revision=commit)
        if younger.recipe.env != agent.recipe.env:
            raise CheckpointError(f"the snapshot {share} of {name} plays another game: choose another one.")
        return younger

    with _lock:
        _guests[name] = Watchable(name, agent.recipe, record.snapshots, record.score.greedy, at, commit)
        _guests.move_to_end(name)
        while len(_guests) > MOST_GUESTS:
            _guests.popitem(last=False)
