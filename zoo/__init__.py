"""The zoo: which agents exist, what they score, and where their weights are.

import zoo
agent = zoo.load("cartpole")
"""

from zoo.entry import UnknownAgent, ZooEntry, entries, load

__all__ = ["UnknownAgent", "ZooEntry", "entries", "load"]
