"""Zoos for tests."""

from pathlib import Path

import pytest

import zoo.entry
from training.keep import keep


def zoo_at(place: Path, patch: pytest.MonkeyPatch) -> Path:
    """Makes a directory the zoo, with no agent in it, for as long as the patch lasts; returns it."""
    for part, constant in (("entries", "ENTRIES"), ("weights", "WEIGHTS")):
        (place / part).mkdir(parents=True)
        patch.setattr(zoo.entry, constant, place / part)
    patch.delenv(zoo.entry.OWN, raising=False)
    return place


def zoo_of(run: Path, place: Path, *, name: str, summary: str) -> Path:
    """Makes a directory a zoo of one agent, which a run left, with its score; returns it."""
    with pytest.MonkeyPatch.context() as patch:
        zoo_at(place, patch)
        keep(run, name, summary=summary, command="by hand", episodes=3)
    return place
