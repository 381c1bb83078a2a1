"""Playing by hand: the keys, the game that they play, its end when nobody is there, and the tab in a real browser."""

import asyncio
import json
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import gradio as gr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.testclient import TestClient

import ui.play.sessions
import zoo
from a3c_core.atari import AtariGames
from benchmarks.pong_points import positions
from playback.episode import PlaybackStep, playback_steps
from tests.browsing import PATIENCE, needs_chromium, visit
from tests.processes import wait_until
from tests.serving import App
from training.recipes import RECIPES
from ui.play import tab as human
from ui.play.controls import CONTROLS, WORDS, Gamepad
from ui.play.game import Game
from ui.play.routes import PLAYABLE, match_of, routes
from ui.play.sessions import Sessions, Taken
from ui.play.sessions import Stream as LiveStream
from ui.streaming.chunks import ACTIONS, EpisodeSpec, header_of
from ui.streaming.routes import LAST_SEED, Refused

INVADERS = ACTIONS["ALE/SpaceInvaders-v5"]
BREAKOUT = ACTIONS["ALE/Breakout-v5"]
CARTPOLE = ACTIONS["CartPole-v1"]


@pytest.fixture(scope="module")
def client(arcade):
    """Who plays in the arcade of these tests."""
    return TestClient(Starlette(routes=routes(arcade.sessions, arcade.broadcasts)))


@pytest.mark.parametrize(
    ("actions", "held", "meant"),
    [
        (INVADERS, [[]], "wait"),
        (INVADERS, [["left"]], "left"),
        (INVADERS, [["left", "fire"]], "left, fire"),
        (INVADERS, [["left", "right"]], "right"),
        (INVADERS, [["left", "fire", "right"]], "right, fire"),
        (INVADERS, [["left"], ["left", "fire"], ["left"]], "left, fire"),
        (INVADERS, [["left"], []], "left"),
        (BREAKOUT, [["left", "fire"]], "fire"),
        (BREAKOUT, [["up"]], "wait"),
        (CARTPOLE, [[]], "left"),
        (CARTPOLE, [["right"]], "right"),
    ],
)
def test_what_is_held_or_was_tapped_becomes_one_action(actions, held, meant):
    pad = Gamepad(actions)
    for words in held:
        pad.hold(words)
    assert actions[pad.action()] == meant


def test_a_tap_counts_once_but_a_cart_is_pushed_on():
    gun, cart = Gamepad(BREAKOUT), Gamepad(CARTPOLE)
    for pad in (gun, cart):
        pad.hold(["right"])
        pad.hold([])
        pad.action()
    assert (BREAKOUT[gun.action()], CARTPOLE[cart.action()]) == ("wait", "right")


@pytest.mark.parametrize(
    ("heard", "actions"),
    [
        ([(1, ["fire"]), (2, [])], ["fire", "wait"]),
        ([(2, []), (1, ["fire"])], ["fire", "wait"]),
        ([(1, ["left"]), (3, ["left"]), (2, ["left", "fire"])], ["left, fire", "left"]),
        ([(2, ["right"]), (1, ["left"])], ["right", "right"]),
        ([(1, ["left"]), (3, []), (2, ["left"])], ["left", "wait"]),
        ([(1, ["left"]), None, (3, []), (2, ["left"])], ["left", "wait"]),
    ],
)
def test_a_tap_counts_even_where_its_end_comes_first(heard, actions):
    """Messages, and None for a step in between."""

    async def meet() -> list[str]:
        sessions = Sessions()
        live = sessions.open(RECIPES["space_invaders"], 7, 100)
        live.game = SimpleNamespace(pad=Gamepad(INVADERS), close=lambda: None)
        done = []
        for message in heard:
            if message:
                live.hear(*message)
            else:
                done.append(INVADERS[live.game.pad.action()])
        sessions.close(live)
        return [*done, *(INVADERS[live.game.pad.action()] for _ in range(2 - len(done)))]

    with ThreadPoolExecutor() as pool:  # the tests' browser has a loop in this thread
        assert pool.submit(asyncio.run, meet()).result(30) == actions


@pytest.mark.parametrize("name", ["cartpole", "breakout"])
def test_a_visitor_plays_the_very_game_that_the_agent_plays(name):
    """Whoever does what the agent does sees what the agent saw, and scores what it scored."""
    agent, actions = zoo.load(name), ACTIONS[RECIPES[name].env]
    with closing(Game(RECIPES[name], seed=7)) as game:
        opening = game.opening({})
        with closing(playback_steps(agent, 7, watched=True)) as played:
            for moment in islice(played, 40):
                game.pad.hold(actions[int(moment.action)].split(", "))
                chunk = game.step()
                told = header_of(chunk)
                assert told["actions"] == [int(moment.action)]
                assert (told["rewards"], told["over"]) == ([moment.reward], moment.over)
                assert np.abs(last_picture(chunk, moment).astype(int) - moment.pictures[-1]).max() < 4
    assert header_of(opening)["game"]["height"] == moment.pictures[0].shape[0]


def last_picture(chunk: bytes, moment: PlaybackStep) -> np.ndarray:
    """What the page draws last for a step; its colours are told apart by their first six bits."""
    data = np.frombuffer(zlib.decompress(chunk[4 + int.from_bytes(chunk[:4], "little") :]), np.uint8)
    frames = data[768:].reshape(-1, *moment.pictures[-1].shape[:2])
    return data[:768].reshape(256, 3)[np.bitwise_xor.reduce(frames)]


REFUSED = {
    "no game": ({}, "Choose a game to play"),
    "a game that is not played by hand": ({"play": "pendulum"}, "Choose a game to play"),
    "an environment's name": ({"play": "ALE/Pong-v5"}, "Choose a game to play"),
    "a seed of training": ({"play": "pong", "seed": str(LAST_SEED + 1)}, "Seed must be a whole number"),
    "no number": ({"play": "pong", "seed": "nan"}, "Seed must be a whole number"),
    "a mad speed": ({"play": "pong", "speed": "99"}, "The speed is one of"),
    "a negative speed": ({"play": "pong", "speed": "-50"}, "Speed must be a whole number"),
}


@pytest.mark.parametrize(("asked", "says"), REFUSED.values(), ids=REFUSED)
def test_a_match_that_cannot_be_is_refused_in_a_sentence(client, asked, says):
    for answer in (client.post("/arcade/live", params=asked), client.get("/arcade/rival", params=asked)):
        assert answer.status_code == 400
        assert says in answer.json()["error"]


@given(st.dictionaries(st.sampled_from(["play", "seed", "speed"]), st.text(max_size=20)))
@settings(max_examples=50, deadline=None)
def test_whatever_an_address_says_there_is_a_match_or_a_sentence(asked):
    said = "."
    try:
        assert match_of(asked).play in PLAYABLE
    except Refused as error:
        said = str(error)
    assert said.endswith(".")


@pytest.mark.parametrize(
    "asked",
    [(None, 7, 100), ("pong", None, 100), ("pong", float("nan"), 100), ("pong", 7, "<b>"), (["pong"], 7, 1e300)],
    ids=str,
)
def test_a_form_sent_by_hand_is_refused_in_a_sentence(asked):
    with pytest.raises(human.gr.Error) as refused:
        human.choose(*asked)
    assert refused.value.message.endswith(".")
    assert "<" not in refused.value.message


def test_all_places_taken_is_said_politely(client, monkeypatch):
    monkeypatch.setattr(ui.play.sessions, "AT_ONCE", 0)
    answer = client.post("/arcade/live", params={"play": "pong"})
    assert answer.status_code == 503
    assert answer.json()["error"].startswith("Too many games are being played")


def test_an_address_plays_only_so_many_games_and_others_still_can():
    sessions, recipe = Sessions(), RECIPES["cartpole"]
    for _ in range(ui.play.sessions.PER_ADDRESS):
        sessions.open(recipe, 7, 100, "203.0.113.9")
    with pytest.raises(Taken, match=r"from your address.*\.$"):
        sessions.open(recipe, 7, 100, "203.0.113.9")
    sessions.open(recipe, 7, 100, "203.0.113.10")
    sessions.open(recipe, 7, 100, None)


def test_keys_for_no_game_are_refused(client):
    assert client.post("/arcade/live/keys", params={"id": "guessed", "n": 1, "held": "left"}).status_code == 404


def test_a_game_without_an_agent_is_played_for_its_own_sake(client, monkeypatch):
    monkeypatch.setattr(zoo, "entries", dict)
    assert human.set_up({"play": "space_invaders"}).screen["agent"] is None
    assert client.get("/arcade/rival", params={"play": "space_invaders"}).status_code == 404


def test_every_control_is_one_that_its_game_knows():
    for env, controls in CONTROLS.items():
        assert set(controls.buttons) <= set(ACTIONS[env]) & set(WORDS)


def test_pongs_ball_flies_twice_as_fast_where_the_paddle_fires():
    agent, actions = zoo.load("pong"), ACTIONS["ALE/Pong-v5"]
    pairs = [(actions.index(word), actions.index(f"{word}, fire")) for word in ("up", "down")] + [(0, 1)]
    with closing(AtariGames("ALE/Pong-v5", 2, sticky=0.0, full_action_space=False, threads=1)) as games:
        obs, _ = games.reset(seed=[0, 0])
        columns = []
        for _ in range(70):
            chosen, _ = agent.act(obs[0])
            obs, *_ = games.step(np.array(next(pair for pair in pairs if chosen in pair)))  # one of them always fires
            columns.append([positions(screen[-1])[0] for screen in obs])
    without, fired = np.array(columns).T
    hit = np.nanargmax(without)
    np.testing.assert_array_equal(without[:hit], fired[:hit])  # before the hit it makes no difference
    assert np.diff(fired[-5:]).mean() / np.diff(without[-5:]).mean() == pytest.approx(2.0, abs=0.3)


class Stream:
    """A live game as a program meets it that is no browser."""

    def __init__(self, app: App, **asked: object) -> None:
        self._app = app
        self.answer = urlopen(Request(f"{app.url}arcade/live?{urlencode(asked)}", method="POST"), timeout=60)
        self.id = self.next()["game"]["id"]

    def next(self) -> dict:
        """What the next message says."""
        return header_of(self.answer.read(int.from_bytes(self.answer.read(4), "little")))

    def tell(self, **told: object) -> int:
        query = urlencode({"id": self.id} | told)
        with urlopen(Request(f"{self._app.url}arcade/live/keys?{query}", method="POST"), timeout=60) as answer:
            return answer.status


def under_way(app: App) -> int:
    with urlopen(f"{app.url}healthz", timeout=60) as answer:
        return json.load(answer)["players"]


def test_a_game_waits_for_its_player_and_goes_when_the_player_goes(app):
    assert under_way(app) == 0
    stream = Stream(app, play="pong", seed=7)
    assert under_way(app) == 1
    assert stream.tell(n=2, held="up") == 204
    assert stream.tell(n=1, held="down") == 204  # overtaken by the one before
    assert [stream.next()["actions"] for _ in range(3)] == [[ACTIONS["ALE/Pong-v5"].index("up")]] * 3
    with pytest.raises(HTTPError, match="400"):
        stream.tell(n=3, held="jump")
    with pytest.raises(HTTPError, match="400"):
        stream.tell(n="9" * 99, held="up")
    stream.answer.close()
    assert wait_until(lambda: under_way(app) == 0, 2.0 + 3.0)  # two seconds are promised, the rest is a busy machine's
    assert stream.tell(n=4, held="up") == 204


def test_a_page_that_neither_reads_nor_says_anything_loses_its_game(monkeypatch):
    """Its connection may look open for hours: a lid was closed."""
    monkeypatch.setattr(ui.play.sessions, "SILENCE_SECONDS", 0.2)
    sessions, stuck = Sessions(), []
    live = sessions.open(RECIPES["cartpole"], 7, 100)

    async def never(*_):
        if live.game:
            live.hear(1, ["left"])
            stuck.append(live.id)
        await asyncio.sleep(3600 if live.game else 0)

    async def receive():
        await asyncio.sleep(3600)

    answer = LiveStream(sessions, live)({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, never)
    with ThreadPoolExecutor() as pool:  # the tests' browser has a loop in this thread
        pool.submit(asyncio.run, answer).result(30)
    assert stuck
    assert sessions.get(live.id) is None
    assert live.game.over


def test_the_game_of_a_page_that_is_silent_waits_for_it(monkeypatch):
    """A lost connection should lose nobody a ball."""
    monkeypatch.setattr(ui.play.sessions, "DOUBT_SECONDS", 0.2)

    async def meet() -> None:
        sessions = Sessions()
        live = sessions.open(RECIPES["pong"], 7, 100)
        messages = live.messages()
        await anext(messages)
        live.hear(1, ["up"])
        played, following = 0, asyncio.ensure_future(anext(messages))
        while (await asyncio.wait({following}, timeout=0.5))[0]:
            played, following = played + 1, asyncio.ensure_future(anext(messages))
            assert played <= 1 + live.rate * 0.2
        assert played
        live.hear(2, ["up"])
        await asyncio.wait_for(following, 5)
        sessions.close(live)

    with ThreadPoolExecutor() as pool:
        pool.submit(asyncio.run, meet()).result(30)


def play(page: Page) -> None:
    page.locator("#play-screen .go").click()
    expect(page.locator(".human")).to_have_attribute("data-state", re.compile("playing|over"))


def shown(page: Page) -> np.ndarray:
    """A few pixels of the canvas' middle row."""
    script = "canvas => [...canvas.getContext('2d').getImageData(0, canvas.height / 2, canvas.width, 40).data]"
    return np.array(page.locator("#play-screen canvas").evaluate(script))


@needs_chromium
@pytest.mark.timeout(300)  # the agent plays 500 drawn steps, which a busy machine takes minutes for
def test_from_a_link_through_a_game_to_a_result_to_share(app, browser):
    with visit(browser, app, "?play=cartpole&seed=7") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        expect(page.get_by_role("tab", name="Play")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#play-screen .name")).to_have_text("You, seed 7 at half speed")
        play(page)
        page.keyboard.down("ArrowRight")
        expect(page.locator(".human")).to_have_attribute("data-state", "over")
        expect(page.locator(".human .said")).to_contain_text("The agent won: 500 against your", timeout=3 * PATIENCE)
        expect(page.locator("#play-rival .name")).to_contain_text("cartpole, greedy actions, seed 7")
        page.get_by_role("button", name="Copy the result").click()
        expect(page.locator(".human .said")).to_have_text("The result and its link are copied.")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("I scored ")
        assert copied.endswith(f"the agent 500: beat us both at seed 7 {app.url}?play=cartpole&seed=7")
        page.get_by_role("button", name="Play again").click()
        expect(page.locator("#play-rival")).to_have_count(0)
        expect(page.locator(".human")).to_have_attribute("data-state", re.compile("counting|playing"))


@needs_chromium
def test_keys_reach_the_game_which_pauses_when_one_looks_away(app, browser):
    with visit(browser, app) as page:
        page.get_by_role("tab", name="Play").click()
        page.locator("#play-game").get_by_label("Space Invaders").click()
        expect(page.locator("#play-screen .title")).to_have_text("Space Invaders")
        page.locator("#play-screen canvas").press("Enter")
        expect(page.locator(".human")).to_have_attribute("data-state", "playing")
        canvas = page.locator("#play-screen canvas")
        page.keyboard.down("ArrowLeft")
        page.keyboard.down(" ")
        expect(canvas).to_have_attribute("data-action", str(INVADERS.index("left, fire")))
        assert shown(page).any()
        page.keyboard.up(" ")
        page.keyboard.up("ArrowLeft")
        expect(canvas).to_have_attribute("data-action", "0")
        page.get_by_role("tab", name="Watch").click()
        page.get_by_role("tab", name="Play").click()
        expect(page.locator(".human")).to_have_attribute("data-state", "paused")
        page.locator("#play-game").get_by_label("Pong").click()
        expect(page.locator("#play-screen .title")).to_have_text("Pong")
        assert wait_until(lambda: under_way(app) == 0, 10)


@needs_chromium
def test_a_game_that_is_watched_can_be_played_oneself(app, browser):
    with visit(browser, app, "?agent=breakout&seed=7") as page:
        expect(page.locator("#watch-seed input")).to_have_value("7")
        page.get_by_role("button", name="Play it yourself").click()
        expect(page.locator("#play-screen .title")).to_have_text("Breakout")
        expect(page.get_by_role("tab", name="Play")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#play-seed input")).to_have_value("7")
        page.get_by_role("tab", name="Watch").click()
        page.get_by_label("pendulum", exact=True).click()
        expect(page.get_by_role("button", name="Play it yourself")).to_be_hidden()


@pytest.mark.parametrize("agent", ["pendulum", "nobody", None, ["breakout"]])
def test_what_nobody_can_play_by_hand_is_not_offered(agent):
    assert human.offer(agent)["visible"] is False
    with pytest.raises(gr.Error, match="cannot be played by hand"):
        human.accept(agent, 0)


def test_the_agents_game_counts_among_those_of_who_asks_for_it(client, arcade, monkeypatch):
    monkeypatch.setattr("ui.streaming.stream.AT_ONCE_EACH", 1)
    other = arcade.broadcasts.get(EpisodeSpec("pong", 917), "192.0.2.7")
    visitor = TestClient(client.app, client=("192.0.2.7", 1234))
    assert visitor.get("/arcade/rival", params={"play": "pong", "seed": 918}).status_code == 503
    other.leave()
    other.join(30.0)


@needs_chromium
def test_on_a_phone_thumbs_play_and_nothing_sticks_out(app, browser):
    with visit(browser, app, "?play=breakout&seed=3") as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.locator("#play-screen canvas").dispatch_event("pointerdown")  # a finger that scrolls
        page.wait_for_timeout(300)
        expect(page.locator(".human")).to_have_attribute("data-state", "ready")
        play(page)
        left, right = page.locator(".thumb[data-word=left]"), page.locator(".thumb[data-word=right]")
        left.hover()
        page.mouse.down()
        canvas = page.locator("#play-screen canvas")
        expect(canvas).to_have_attribute("data-action", str(BREAKOUT.index("left")))
        right.hover()  # slides over
        expect(canvas).to_have_attribute("data-action", str(BREAKOUT.index("right")))
        page.mouse.up()
        expect(canvas).to_have_attribute("data-action", "0")
        assert left.bounding_box()["height"] >= 48
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@needs_chromium
def test_a_game_that_cannot_begin_is_explained_in_our_words(app, browser):
    with closing(browser.new_page()) as page:  # to the browser's console any failure is an error
        page.goto(f"{app.url}?play=pong")
        for failing in (lambda route: route.abort(), lambda route: route.fulfill(status=502, body="<html>Bad gateway")):
            page.route("**/arcade/live?*", failing)
            page.locator("#play-screen .go").click()
            expect(page.locator(".human .said")).to_have_text("The server cannot be reached. Please try again.")
            page.unroute("**/arcade/live?*")


@needs_chromium
def test_a_link_to_no_game_is_explained(app, browser):
    with visit(browser, app, "?play=<b>chess&seed=x") as page:
        expect(page.get_by_text("Choose a game to play")).to_be_visible()
        expect(page.locator("#play-screen .title")).to_have_text("Breakout")
