"""What the player asks the server for, as anybody on the network may: what is not right is refused in a sentence."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

import ui.streaming.files
import ui.streaming.routes
import ui.streaming.stream
import zoo
from a3c_core.checkpoint import CheckpointError
from ui import health
from ui.episodes import scratch
from ui.play.sessions import Sessions
from ui.streaming.chunks import MOST_CHUNKS, EpisodeSpec
from ui.streaming.files import Files
from ui.streaming.routes import LAST_SEED, Refused, routes, spec_of
from ui.streaming.saliency import Looks
from ui.streaming.stream import Broadcasts, Full, agent_of


def client_of(broadcasts: Broadcasts, files: Files | None = None, host: str = "testclient") -> TestClient:
    """A visitor of these games."""
    served = routes(broadcasts, Looks(), files or Files(broadcasts))
    return TestClient(Starlette(routes=[*served, *health.routes(broadcasts, Sessions())]), client=(host, 1234))


@pytest.fixture(scope="module")
def client(arcade):
    """A visitor of the arcade of these tests."""
    return client_of(arcade.broadcasts, arcade.files)


REFUSED = {
    "no agent": ({}, "Choose an agent"),
    "an unknown agent": ({"agent": "nobody"}, "Choose an agent"),
    "a directory": ({"agent": "../zoo"}, "Choose an agent"),
    "a repository": ({"agent": "user/a3c-CartPole-v1"}, "Choose an agent"),
    "a seed of training": ({"agent": "cartpole", "seed": str(LAST_SEED + 1)}, "Seed must be a whole number"),
    "a negative seed": ({"agent": "cartpole", "seed": "-1"}, "Seed must be a whole number"),
    "a huge seed": ({"agent": "cartpole", "seed": "9" * 5000}, "Seed must be a whole number"),
    "words for a seed": ({"agent": "cartpole", "seed": "seven"}, "Seed must be a whole number"),
    "digits of another script": ({"agent": "cartpole", "seed": "٣"}, "Seed must be a whole number"),
    "a chunk past every end": ({"agent": "cartpole", "n": str(MOST_CHUNKS + 1)}, "N must be a whole number"),
    "a snapshot that was not kept": ({"agent": "cartpole", "snapshot": "33"}, "has these snapshots"),
    "unknown actions": ({"agent": "cartpole", "actions": "wild"}, "greedy or sampled"),
    "an unknown protocol": ({"agent": "pong", "protocol": "mine"}, "classic, or sticky"),
    "sticky actions without Atari": ({"agent": "cartpole", "protocol": "sticky"}, "classic, or sticky"),
}


@pytest.mark.parametrize(("asked", "says"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(client, asked, says):
    answer = client.get("/arcade/chunk", params=asked)
    assert answer.status_code == 400
    assert says in answer.json()["error"]


def test_a_spec_is_what_was_asked_for():
    asked = {"agent": "pong", "seed": "7", "snapshot": "25", "actions": "sampled", "protocol": "sticky"}
    assert spec_of(asked) == EpisodeSpec("pong", 7, 25, False, "sticky")
    assert spec_of({"agent": "cartpole"}) == EpisodeSpec("cartpole", 0, 100, zoo.entries()["cartpole"].score.greedy)


@given(st.dictionaries(st.sampled_from(["agent", "seed", "snapshot", "actions", "protocol"]), st.text(max_size=30)))
@settings(max_examples=200, deadline=None)
def test_whatever_is_asked_there_is_a_spec_or_a_sentence(asked):
    said = "."
    try:
        spec = spec_of({"agent": "cartpole"} | asked)
    except Refused as error:
        spec, said = EpisodeSpec("cartpole", 0), str(error)
    assert spec.agent in zoo.entries()
    assert said.endswith(".")


def test_a_game_comes_chunk_by_chunk_and_ends(client):
    asked, n, steps = {"agent": "pendulum", "seed": 1, "snapshot": 0}, 0, 0
    while (answer := client.get("/arcade/chunk", params=asked | {"n": n})).status_code == 200:
        length = int.from_bytes(answer.content[:4], "little")
        steps += len(json.loads(answer.content[4 : 4 + length])["actions"])
        n += 1
    assert (answer.status_code, steps) == (204, 200)


def test_a_game_that_has_no_place_is_asked_for_later(arcade, client, monkeypatch):
    def full(*_):
        raise Full

    monkeypatch.setattr(arcade.broadcasts, "get", full)
    answer = client.get("/arcade/chunk", params={"agent": "cartpole", "seed": 777})
    assert answer.status_code == 503
    assert answer.json()["error"].startswith("So many games")


def test_a_chunk_that_takes_long_is_to_be_asked_for_again(client, monkeypatch):
    monkeypatch.setattr(ui.streaming.routes, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(ui.streaming.stream, "AHEAD_SECONDS", 1.0)
    assert client.get("/arcade/chunk", params={"agent": "pong", "seed": 5, "n": 900}).status_code == 202


def test_damaged_files_are_told_without_their_place():
    def damaged(spec):
        raise CheckpointError("/secret/place is damaged")

    answer = client_of(Broadcasts(damaged)).get("/arcade/chunk", params={"agent": "cartpole"})
    assert answer.status_code == 500
    assert answer.json() == {"error": "cartpole cannot play: its files are damaged."}


def test_a_video_that_finds_no_room_on_the_disk_blames_no_agent(arcade, client, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/secret/place")

    monkeypatch.setattr(arcade.files, "video", full)
    answer = client.get("/arcade/video", params={"agent": "cartpole"})
    assert answer.status_code == 500
    assert answer.json() == {"error": "The game could not be recorded. Please try later."}


def test_a_video_that_cannot_be_written_leaves_nothing_behind(client, monkeypatch):
    def half(broadcast, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ui.streaming.files, "mp4_of", half)
    before = sorted(scratch().rglob("*"))
    assert client.get("/arcade/video", params={"agent": "cartpole", "seed": 780}).status_code == 500
    assert sorted(scratch().rglob("*")) == before


def test_a_video_counts_among_the_games_of_who_asks_for_it(arcade, monkeypatch):
    monkeypatch.setattr("ui.streaming.stream.AT_ONCE_EACH", 1)
    other = arcade.broadcasts.get(EpisodeSpec("pong", 779), "192.0.2.7")
    asked = {"agent": "cartpole", "seed": 778}
    assert client_of(arcade.broadcasts, host="192.0.2.7").get("/arcade/video", params=asked).status_code == 503
    other.leave()
    other.join(30.0)


@pytest.mark.parametrize("kind", ["video", "gif"])
def test_a_visitor_has_some_files_made_and_no_more(arcade, monkeypatch, kind):
    monkeypatch.setattr(ui.streaming.files, "EACH", 1)
    files = Files(arcade.broadcasts)
    with files.of_one_visitor.one("192.0.2.7"):
        visitor = client_of(arcade.broadcasts, files, host="192.0.2.7")
        answer = visitor.get(f"/arcade/{kind}", params={"agent": "cartpole"})
    assert answer.status_code == 429
    assert answer.json()["error"].startswith("1 files are being made for your address already.")


def test_the_app_tells_that_it_is_well_and_what_it_does():
    broadcasts = Broadcasts(agent_of)
    client = client_of(broadcasts)
    assert client.get("/healthz").json().items() >= {"status": "ok", "games": 0, "chunks_mb": 0.0}.items()
    client.get("/arcade/chunk", params={"agent": "cartpole", "seed": 774, "n": 2})
    told = client.get("/healthz").json()
    assert told["games"] == 1
    assert told["chunks_mb"] == pytest.approx(broadcasts.size / 2**20, abs=0.2)
    assert told["chunks_mb"] > 0
    broadcasts.end()
