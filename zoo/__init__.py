"""The zoo: which agents exist, what they score, and where their weights are.

import zoo
agent = zoo.load("cartpole")
"""

from zoo.entry import ZooEntry, broken_entries, entries, fetched
from zoo.loading import Actions, UnknownAgent, entry_of, find, is_greedy, load, repository

__all__ = [
    "Actions",
    "UnknownAgent",
    "ZooEntry",
    "broken_entries",
    "entries",
    "entry_of",
    "fetched",
    "find",
    "is_greedy",
    "load",
    "repository",
]
