"""What visitors share belongs to one arcade, and ends with it."""

import pytest

from training.recipes import RECIPES
from ui.arcade import Arcade
from ui.play.sessions import Taken
from ui.streaming.chunks import EpisodeSpec
from ui.streaming.stream import Full


def test_what_is_under_way_ends_with_its_arcade_and_anothers_goes_on():
    closed, other = Arcade(), Arcade()
    games = [each.broadcasts.get(EpisodeSpec("pong", 7)) for each in (closed, other)]
    runs = [each.jobs.enter(RECIPES["cartpole"], "page") for each in (closed, other)]
    lives = [each.sessions.open(RECIPES["cartpole"], 7, 100) for each in (closed, other)]
    closed.close()
    assert closed.ending.is_set()
    assert [game.alive for game in games] == [False, True]
    assert [run.stop.is_set() for run in runs] == [True, False]
    assert [each.sessions.get(live.id) for each, live in zip((closed, other), lives, strict=True)] == [None, lives[1]]
    with pytest.raises(Full):
        closed.broadcasts.get(EpisodeSpec("pong", 8))
    with pytest.raises(Taken, match="is closing"):
        closed.sessions.open(RECIPES["cartpole"], 8, 100)
    other.close()
    assert not games[1].alive
