"""What every test shares: one thread for torch, as the workers of a run have, and a zoo of its own."""

import pytest
import torch

import zoo.entry

torch.set_num_threads(1)


@pytest.fixture
def empty_zoo(tmp_path, monkeypatch):
    """A directory that is the zoo for the time of a test, with no agent in it."""
    for place in ("entries", "weights"):
        (tmp_path / "zoo" / place).mkdir(parents=True)
    monkeypatch.setattr(zoo.entry, "ENTRIES", tmp_path / "zoo" / "entries")
    monkeypatch.setattr(zoo.entry, "WEIGHTS", tmp_path / "zoo" / "weights")
    return tmp_path / "zoo"
