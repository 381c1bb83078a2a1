"""Recorded games: the same as those that are played, shown without anything being played, and never another agent's."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import httpx
import numpy as np
import pytest
import tyro
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import zoo
from a3c_core.checkpoint import MODEL
from tests.browsing import needs_chromium, visit
from tests.processes import wait_until
from ui.modules import FOREVER, scripts
from ui.recordings import __main__ as program
from ui.recordings import shelf
from ui.recordings.make import make
from ui.recordings.record import FIRST, LATER, parted
from ui.recordings.routes import PLACE, ROUTES
from ui.recordings.shelf import INDEX, SHIPPED, Recording, all_recordings, read, recording_of
from ui.streaming.agent_catalog import LANDING, zoo_names
from ui.streaming.chunks import EpisodeSpec, chunks, header_of, palette_of, pixels_of
from ui.streaming.routes import spec_of
from ui.watch.prefetch import Prefetch
from zoo.__main__ import main as command_line

CLIENT = TestClient(Starlette(routes=ROUTES))


@pytest.fixture
def fresh(monkeypatch):
    """What is known of recordings is forgotten before the test and after it."""
    for kept in (shelf.all_recordings, shelf.content):
        kept.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    for kept in (shelf.all_recordings, shelf.content):
        kept.cache_clear()


def chunks_of(data: bytes) -> list[bytes]:
    """The chunks in a file of a game."""
    found, data = [], gzip.decompress(data)
    while data:
        length = int.from_bytes(data[:4], "little")
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return found


def played(spec: EpisodeSpec) -> Iterator[bytes]:
    """The chunks of a game as it is played where no other of its environment was before: it has its own palette."""
    palette_of.cache_clear()
    with closing(chunks(spec, zoo.load(spec.agent))) as game:
        yield from (part.chunk for part in game)


def test_a_recorded_game_is_the_game_that_is_played(fresh, tmp_path):
    spec = EpisodeSpec("cartpole", 7, snapshot=100)
    (game,) = make(tmp_path / "games", [spec], processes=1)
    fresh.setenv(shelf.OWN, str(tmp_path / "games"))
    assert recording_of(spec) == game
    files = [CLIENT.get(f"/{PLACE}{name}") for name in game.files]
    assert {answer.headers["cache-control"] for answer in files} == {FOREVER}
    recorded = [chunk for answer in files for chunk in chunks_of(answer.content)]
    for kept, sent in zip(recorded, played(spec), strict=True):
        assert header_of(kept) == header_of(sent)
        assert pixels_of(kept) == pixels_of(sent)
    assert [game.steps, game.total, game.whole] == [500, 500.0, True]


@pytest.mark.parametrize("shipped", read(SHIPPED), ids=lambda each: each.game.agent)
def test_a_game_that_ships_is_its_agents_and_still_played_so(shipped: Recording):
    game = shipped.game
    remake = "record them with: python -m zoo record --out ui/recordings/shipped --protocols classic --agents "
    remake += " ".join(each.game.agent for each in read(SHIPPED))
    assert zoo.entries()[game.agent].sha256[MODEL] == shipped.weights, remake
    spec = spec_of({"agent": game.agent})
    assert recording_of(spec)[: len(game)] == game
    recorded = chunks_of((SHIPPED / game.files[0]).read_bytes())
    for kept, sent in zip(recorded, islice(played(spec), len(recorded)), strict=True):
        told, asked = header_of(kept), header_of(sent)
        for numbers in ("policies", "values"):  # another processor may round the last digit otherwise
            np.testing.assert_allclose(told.pop(numbers), asked.pop(numbers), atol=0.02)
        assert told == asked, remake
        assert pixels_of(kept) == pixels_of(sent), remake


def test_what_ships_is_small_and_nothing_else():
    files = {name for each in read(SHIPPED) for name in each.game.files}
    assert {path.name for path in SHIPPED.iterdir()} == files | {INDEX}
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 1.5e6
    assert LANDING in {each.game.agent for each in read(SHIPPED)}


def test_only_whole_games_of_the_agents_as_they_are_now_are_offered(fresh, tmp_path):
    def named(change: dict) -> list[str]:
        index = json.loads((SHIPPED / INDEX).read_text()) | {"weights": weights}
        index["games"][0] |= change
        (tmp_path / INDEX).write_text(json.dumps(index))
        shelf.all_recordings.cache_clear()
        return sorted(game["agent"] for game in CLIENT.get(f"/{PLACE}").json())

    fresh.setattr(shelf, "SHIPPED", tmp_path)
    weights = {each.game.agent: each.weights for each in read(SHIPPED)}
    first, *others = (each.game.agent for each in read(SHIPPED))
    assert named({}) == sorted([first, *others])
    assert named({"whole": False}) == sorted(others)
    weights[first] = "0" * 64
    assert named({}) == sorted(others)
    assert recording_of(spec_of({"agent": first})) is None


def test_a_game_that_somebody_changed_is_played():
    asked = {"agent": "cartpole", "seed": "0"}
    assert recording_of(spec_of(asked))
    for change in (
        {"nudges": "20.left"},
        {"takeovers": "20.a3"},
        {"seed": "1"},
        {"snapshot": "25"},
        {"actions": "sampled"},
    ):
        assert recording_of(spec_of(asked | change)) is None, change


def test_a_directory_that_holds_none_is_told_and_the_others_are_shown(fresh, tmp_path, capsys):
    for place, said in ((tmp_path / "none", "has no recordings"), (tmp_path, "of this version")):
        (tmp_path / INDEX).write_text('{"schema_version": 99}')
        fresh.setenv(shelf.OWN, str(place))
        all_recordings.cache_clear()
        assert len(all_recordings()) == len(read(SHIPPED))
        assert said in capsys.readouterr().err


def test_a_file_that_is_not_here_is_refused_in_a_sentence():
    for name in ("0" * 20 + ".bin", INDEX, "..%5capp.py"):
        answer = CLIENT.get(f"/{PLACE}{name}")
        assert (answer.status_code, answer.json()) == (404, {"error": "This recording is not here any more."})


def test_a_file_ends_where_it_is_full():
    small, large = b"x", b"x" * (LATER.size // 2)
    assert [len(part) for part in parted([small] * 70)] == [FIRST.chunks, LATER.chunks, LATER.chunks, 6]
    assert [len(part) for part in parted([large] * 5)] == [1, 2, 2]
    assert list(parted([])) == []


def test_the_command_records_what_it_is_asked_for(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(program, "make", lambda out, specs, processes: made.append(specs) or [])

    def run(words: list[str]) -> subprocess.CompletedProcess:
        assert words[1:3] == ["-m", "ui.recordings"]
        tyro.cli(program.main, args=words[3:])
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    command_line(["record", "--out", str(tmp_path)])
    command_line(["record", "--out", str(tmp_path), "--agents", "pong", "--seeds", "1", "2", "--protocols", "sticky"])
    assert [spec.agent for spec in made[0] if spec.protocol == "classic"] == zoo_names()
    assert {spec.seed for spec in made[0]} == {0}
    assert EpisodeSpec("breakout", 0, greedy=False, protocol="sticky") in made[0]
    assert made[1] == [EpisodeSpec("pong", seed, protocol="sticky") for seed in (1, 2)]


def test_the_command_refuses_in_a_sentence(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ValueError, match="holds something else"):
        program.main(out=tmp_path, agents=("cartpole",))
    assert (tmp_path / "mine.txt").exists()
    with pytest.raises(zoo.UnknownAgent, match="no agent and no directory 'nobody'"):
        program.main(out=tmp_path / "new", agents=("nobody",))


def test_a_page_names_the_first_file_of_its_game_and_nothing_is_played_for_it(arcade):
    async def page(_):
        return PlainTextResponse("the page")

    early = Middleware(Prefetch, broadcasts=arcade.broadcasts)
    with TestClient(Starlette(routes=[Route("/", page)], middleware=[early])) as visitor:
        for query, name in (("", LANDING), ("?agent=cartpole&at=7", "cartpole")):
            spec = spec_of({"agent": name})
            links = visitor.get(f"/{query}").headers["link"].split(", ")
            fetched = [link.partition(">")[0] for link in links if "as=fetch" in link]
            assert fetched == [f"<{PLACE}", f"<{PLACE}{recording_of(spec).files[0]}"]
            assert {f"<{each}>; rel=modulepreload" for each in scripts("watch/player.js")} < set(links)
            assert arcade.broadcasts.found(spec) is None
        assert "as=fetch" not in visitor.get("/?agent=cartpole&seed=90213").headers["link"]
        for query in ("?agent=nobody", "?tab=how", "?play=pong"):
            assert "link" not in visitor.get(f"/{query}").headers
        assert wait_until(lambda: arcade.broadcasts.found(spec_of({"agent": "cartpole", "seed": "90213"})), 30)


@needs_chromium
def test_the_landing_game_is_shown_and_sought_without_an_emulator_and_goes_on_by_one_when_pushed(app, browser):
    asked = []
    with visit(browser, app) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        page.locator(".player[data-state=playing]").wait_for()
        canvas = page.locator(".player canvas").first
        canvas.press(" ")
        for key in ("End", "End", "Home", "."):
            canvas.press(key)
        assert wait_until(lambda: canvas.get_attribute("data-step") == "1", 30)
        assert not [url for url in asked if "/arcade/chunk" in url]
        assert any(url.endswith(".bin") for url in asked)
        page.get_by_role("button", name="Show what it looks at for its choice").click()
        page.locator(".player canvas.light[data-step='2']").wait_for()  # asked of an agent that plays now
        assert httpx.get(f"{app.url}healthz").json()["games"] >= 1
