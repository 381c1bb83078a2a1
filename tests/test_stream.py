"""A streamed game is the game: the same steps, the same pictures, whoever watches and however often it begins anew."""

import asyncio
import gc
import json
import math
import os
import threading
import time
import weakref
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import ui.streaming.chunks
import ui.streaming.stream
from playback.episode import play, render
from tests import toy
from tests.processes import wait_until
from ui.streaming.chunks import UNLIKE, EpisodeSpec, Palette, chunks, palette_of
from ui.streaming.files import mp4_of
from ui.streaming.scheduler import Scheduler
from ui.streaming.stream import CAN_WAIT_SECONDS, Broadcast, Broadcasts, Full

AGENT = toy.balancer()
SPEC = EpisodeSpec("balancer", seed=3)


class Streamed(NamedTuple):
    """A chunk as a player reads it."""

    header: dict
    pictures: np.ndarray


def read(chunk: bytes) -> Streamed:
    length = int.from_bytes(chunk[:4], "little")
    data = np.frombuffer(zlib.decompress(chunk[4 + length :]), dtype=np.uint8)
    colours, numbers = data[:768].reshape(256, 3), data[768:]
    header = json.loads(chunk[4 : 4 + length])
    return Streamed(header, colours[np.bitwise_xor.accumulate(numbers.reshape(-1, SIZE[0], SIZE[1]))])


SIZE = (400, 600)
"""Of CartPole's pictures."""


STEPS = 130
"""As many of a game make it long enough."""


@pytest.fixture(scope="module")
def game():
    """A game, chunk by chunk, that is cut after some steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ui.streaming.chunks, "MOST_STEPS", STEPS)
        return [read(part.chunk) for part in chunks(SPEC, AGENT)]


@pytest.fixture
def broadcasts():
    """Games of the balancer; none is under way when the test is over."""
    broadcasts = Broadcasts(lambda spec: AGENT)
    yield broadcasts
    broadcasts.end()
    assert broadcasts.under_way() == 0


def played(broadcast: Broadcast, count: int) -> bool:
    """Whether so many chunks appear, and no more than that at once."""
    return wait_until(lambda: len(broadcast.chunks) >= count, 30)


def test_a_streamed_game_has_the_steps_of_the_game(game):
    episode = play(AGENT, 3, max_steps=STEPS)
    told = {key: [x for part in game for x in part.header[key]] for key in ("actions", "rewards", "values", "policies")}
    assert told["actions"] == episode.actions.tolist()
    assert told["rewards"] == episode.rewards.tolist()
    np.testing.assert_allclose(told["values"], episode.values, atol=1e-3)
    np.testing.assert_allclose(told["policies"], episode.policies, atol=1e-3)
    assert [part.header["over"] for part in game] == [False] * (len(game) - 1) + [True]
    assert [part.header["first"] for part in game] == np.cumsum([0, *(len(p.header["actions"]) for p in game)])[
        :-1
    ].tolist()


def test_a_streamed_game_has_the_pictures_of_the_game(game):
    shown = [picture for part in game for picture in part.pictures]
    drawn = render(AGENT, play(AGENT, 3, max_steps=STEPS)).pictures
    assert len(shown) == sum(sum(part.header["pictures"]) for part in game) == STEPS + 1
    for ours, theirs in zip(shown, drawn, strict=True):  # colours are told apart by their six highest bits
        assert np.abs(ours.astype(np.int16) - theirs).max() < 4


def test_the_first_chunk_tells_what_the_game_is(game):
    about = game[0].header["game"]
    assert about.items() >= {"agent": "balancer", "seed": 3, "env": "CartPole-v1", "height": 400, "width": 600}.items()
    assert len(about["actions"]) == len(game[0].header["policies"][0])
    assert not any("game" in part.header for part in game[1:])


def test_a_chunk_is_a_second_of_play_and_the_first_one_half(game):
    first, *others, _ = (sum(part.header["pictures"]) for part in game)
    rate = game[0].header["game"]["rate"]
    assert (first, set(others)) == (rate // 2, {rate})


def test_all_who_watch_a_game_share_it(broadcasts):
    assert broadcasts.get(SPEC) is broadcasts.get(EpisodeSpec("balancer", seed=3))
    assert broadcasts.get(SPEC) is not broadcasts.get(SPEC._replace(seed=4))


def test_a_game_is_played_no_further_than_some_way_ahead_of_who_watches(broadcasts, monkeypatch):
    monkeypatch.setattr(ui.streaming.stream, "AHEAD_SECONDS", 2.0)
    broadcast = broadcasts.get(SPEC)
    assert played(broadcast, 3)
    assert not wait_until(lambda: len(broadcast.chunks) > 3, 0.5)
    broadcast.part(4)
    assert played(broadcast, 7)
    assert not wait_until(lambda: len(broadcast.chunks) > 7, 0.5)


def test_a_game_that_begins_is_played_a_little_and_further_the_longer_it_is_watched(broadcasts):
    broadcast = broadcasts.get(SPEC)
    assert played(broadcast, 3)
    assert not wait_until(lambda: len(broadcast.chunks) > 3, 0.5)
    broadcast.part(2)
    assert played(broadcast, 9)
    assert not wait_until(lambda: len(broadcast.chunks) > 9, 0.5)


def test_a_game_that_nobody_watches_ends_and_begins_anew_where_somebody_comes_back(broadcasts, monkeypatch, game):
    monkeypatch.setattr(ui.streaming.stream, "AHEAD_SECONDS", 2.0)
    monkeypatch.setattr(ui.streaming.stream, "IDLE_SECONDS", 0.1)
    left = broadcasts.get(SPEC)
    assert wait_until(lambda: not left.alive, 30)
    assert not left.over
    again = broadcasts.get(SPEC)
    assert again is not left
    assert wait_until(lambda: again.part(2), 30)
    np.testing.assert_array_equal(read(again.part(2).chunk).pictures, game[2].pictures)


def test_there_are_only_so_many_games_at_once(broadcasts, monkeypatch):
    monkeypatch.setattr(ui.streaming.stream, "AHEAD_SECONDS", 2.0)
    monkeypatch.setattr(ui.streaming.stream, "AT_ONCE", 2)
    first, _ = (broadcasts.get(SPEC._replace(seed=seed)) for seed in (1, 2))
    with pytest.raises(Full):
        broadcasts.get(SPEC)
    assert wait_until(lambda: first.part(1000) or first.over, 60)
    assert wait_until(lambda: not first.alive, 5)
    assert broadcasts.get(SPEC)


def test_one_address_cannot_have_all_games(broadcasts, monkeypatch):
    monkeypatch.setattr(ui.streaming.stream, "AHEAD_SECONDS", 2.0)
    monkeypatch.setattr(ui.streaming.stream, "AT_ONCE_EACH", 2)
    first, _ = (broadcasts.get(SPEC._replace(seed=seed), "192.0.2.1") for seed in (1, 2))
    with pytest.raises(Full):
        broadcasts.get(SPEC, "192.0.2.1")
    assert broadcasts.get(SPEC, "192.0.2.2")
    monkeypatch.setattr(ui.streaming.stream, "LEFT_SECONDS", 0.0)
    assert broadcasts.get(SPEC._replace(seed=4), "192.0.2.1")  # in the place of the one left longest ago
    assert not first.alive


def test_finished_games_go_where_room_is_needed(broadcasts, monkeypatch):
    old = broadcasts.get(SPEC)
    assert wait_until(lambda: old.part(1000) or old.over, 60)
    assert wait_until(lambda: not old.alive, 5)
    monkeypatch.setattr(ui.streaming.stream, "KEPT_BYTES", old.size - 1)
    broadcasts.get(SPEC._replace(seed=4))
    assert broadcasts.get(SPEC) is not old


def test_a_finished_game_that_is_watched_outlives_one_that_is_not(broadcasts, monkeypatch):
    watched, left = (broadcasts.get(SPEC._replace(seed=seed)) for seed in (4, 5))
    for each in (watched, left):
        assert wait_until(lambda each=each: each.part(1000) or each.over, 60)
    assert wait_until(lambda: not (watched.alive or left.alive), 5)
    watched.part(0)  # no more than this: its page asks the address that it began with no more
    monkeypatch.setattr(ui.streaming.stream, "KEPT_BYTES", watched.size)
    broadcasts.get(SPEC._replace(seed=6))
    assert broadcasts.found(watched.spec) is watched
    assert broadcasts.found(left.spec) is None


def test_games_that_were_left_take_no_memory(broadcasts, monkeypatch):
    monkeypatch.setattr(ui.streaming.stream, "AHEAD_SECONDS", 2.0)
    game = broadcasts.get(SPEC)
    game.leave()
    game.join(30)
    left = weakref.ref(game)
    del game
    broadcasts.get(SPEC._replace(seed=4))
    gc.collect()
    assert left() is None


def test_a_game_without_end_is_cut(game):
    assert game[-1].header["over"]
    assert game[-1].header["first"] + len(game[-1].header["actions"]) == STEPS


def shown(palette, picture):
    """A picture in the colours that its palette has for it."""
    numbers = palette.index(picture)
    return np.frombuffer(palette.tobytes(), np.uint8).reshape(256, 3)[numbers].astype(int)


def test_a_colour_too_many_becomes_one_like_it():
    palette, steps = Palette(), np.arange(0, 256, 16, dtype=np.uint8)
    cube = np.stack(np.meshgrid(steps, steps, steps), -1).reshape(16, -1, 3)
    error = np.abs(shown(palette, cube) - cube).sum(-1)
    colours = np.frombuffer(palette.tobytes(), np.uint8).reshape(256, 3).astype(int)
    nearest = np.abs(colours - cube[..., None, :]).sum(-1).min(-1)
    assert (error <= np.maximum(nearest, UNLIKE)).all()
    assert len(np.unique(colours, axis=0)) == 256


def test_the_shades_of_edges_leave_room_for_the_colours_of_surfaces():
    random = np.random.default_rng(0)
    palette, edges = Palette(), random.integers(100, 128, (1, 4000, 3), dtype=np.uint8)
    cloud = np.full((1, 9000, 3), 252, np.uint8)
    np.testing.assert_array_equal(shown(palette, np.concatenate([edges, cloud], 1))[0, -1], cloud[0, 0])
    later = np.array([[[255, 0, 0]]], np.uint8)
    np.testing.assert_array_equal(shown(palette, later), later)


def test_what_no_browser_can_read_breaks_the_game_off():
    recipe = replace(AGENT.recipe, reward_scale=1e-310)  # a stranger's: its values are infinite
    broadcast = Broadcast(SPEC, AGENT._replace(recipe=recipe), Scheduler(places=1))
    assert wait_until(lambda: broadcast.error, 60)
    assert broadcast.chunks == []


def test_games_of_an_environment_share_their_palette():
    assert palette_of("CartPole-v1") is palette_of("CartPole-v1") is not palette_of("Pendulum-v1")


def test_who_would_wait_goes_first_and_who_has_left_goes_last():
    scheduler, order, waiting = Scheduler(places=1), [], []

    def play(name: str, patience: float) -> None:
        with scheduler.turn(lambda: patience):
            order.append(name)

    with scheduler.turn(lambda: 0.0):
        for name, patience in (("left", math.inf), ("far ahead", 9.0), ("starting", 3.0), ("dry", 0.5)):
            waiting.append(threading.Thread(target=play, args=(name, patience)))
            waiting[-1].start()
        assert wait_until(lambda: len(scheduler.waiting) == 4, 10)
    for thread in waiting:
        thread.join()
    assert order == ["dry", "starting", "far ahead", "left"]


def test_a_place_is_taken_as_soon_as_another_has_grown_patient():
    scheduler, first = Scheduler(places=1), [0.0]
    scheduler.waiting["another"] = lambda: first[0]  # it sleeps, and is not told that it could go

    def play() -> None:
        with scheduler.turn(lambda: 1.0):
            pass

    waiting = threading.Thread(target=play)
    waiting.start()
    assert wait_until(lambda: len(scheduler.waiting) == 2, 10)
    first[0] = 2.0  # and nobody is told of that
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_game_is_as_urgent_as_its_most_urgent_viewer(broadcasts, monkeypatch):
    monkeypatch.setattr(ui.streaming.stream, "AHEAD_SECONDS", 1.0)
    broadcast = broadcasts.get(SPEC)
    assert played(broadcast, 2)
    assert broadcast.patience == math.inf
    with broadcasts.scheduler.turn(lambda: -math.inf), ExitStack() as others:
        for _ in range((os.cpu_count() or 1) - 1):
            others.enter_context(broadcasts.scheduler.turn(lambda: -math.inf))
        broadcast.part(5, ahead=12.0)
        broadcast.part(6, ahead=2.0)
        assert 1.0 < broadcast.patience < 2.0
    assert played(broadcast, 7)
    assert broadcast.patience == math.inf


def test_a_file_can_wait_for_those_who_watch(broadcasts, monkeypatch, tmp_path):
    monkeypatch.setattr(ui.streaming.stream, "AHEAD_SECONDS", 1.0)
    broadcast = broadcasts.get(SPEC)
    assert played(broadcast, 2)
    with broadcasts.scheduler.turn(lambda: -math.inf), ExitStack() as others, ThreadPoolExecutor(1) as files:
        for _ in range((os.cpu_count() or 1) - 1):
            others.enter_context(broadcasts.scheduler.turn(lambda: -math.inf))
        video = files.submit(mp4_of, broadcast, tmp_path / "game.mp4")
        assert wait_until(lambda: broadcast.patience < math.inf, 10)
        assert broadcast.patience > CAN_WAIT_SECONDS - 5
        others.close()
    assert video.result().total > 0


def test_waiting_for_a_chunk_ends_with_it_or_with_the_game(broadcasts):
    broadcast = broadcasts.get(SPEC)
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop of its own
        thread.submit(asyncio.run, broadcast.heard(0, 30.0)).result()
        assert broadcast.part(0)
        began = time.monotonic()
        threading.Timer(0.2, broadcast.leave).start()
        thread.submit(asyncio.run, broadcast.heard(10**6, 30.0)).result()
    assert time.monotonic() - began < 20
