"""Taking over: what a visitor plays in an agent's place is part of the game, which its link plays again to the end."""

import re
from contextlib import closing
from itertools import islice
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.testclient import TestClient

import zoo
from a3c_core.recipe import Recipe
from playback.episode import play, playback_steps
from playback.perturbation import Perturbation
from playback.takeover import Takeover, replayed, until
from tests.browsing import needs_chromium, visit
from tests.processes import wait_until
from ui.play.controls import AGENT
from ui.play.routes import routes
from ui.play.taken import TakenGame
from ui.screen import query_of
from ui.streaming.chunks import MOST_STEPS, chunks, header_of
from ui.streaming.replay import replay
from ui.streaming.routes import spec_of
from ui.streaming.stream import agent_of
from ui.streaming.takeovers import MOST_LETTERS, takeovers_of, written

BREAKOUT = Recipe(env="ALE/Breakout-v5")


@st.composite
def games(draw: st.DrawFn) -> tuple[Takeover, ...]:
    """Takeovers of Breakout, in the order of their steps."""
    takeovers, step = [], 0
    for actions in draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6)):
        step += draw(st.integers(1, 4000)) if takeovers else draw(st.integers(0, 4000))
        takeovers.append(Takeover(step, bytes(action % 4 for action in actions)))
        step = takeovers[-1].end
    return tuple(takeovers)


@given(games())
@settings(deadline=None)
def test_a_link_names_takeovers_to_the_step(takeovers):
    assert takeovers_of(written(takeovers), BREAKOUT, MOST_STEPS) == takeovers


@given(games(), st.integers(0, 8000))
@settings(deadline=None)
def test_what_was_played_before_a_step_is_what_the_hand_did_before_it(takeovers, step):
    whole, cut = replayed(takeovers), replayed(until(takeovers, step))
    assert all(cut(at) == (whole(at) if at < step else None) for at in range(step - 50, step + 50))


@given(st.text(alphabet="abcd019.-", max_size=30) | st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_whatever_an_address_says_it_is_the_one_spelling_of_a_game_or_refused_in_a_sentence(text):
    said = "."
    try:
        assert written(takeovers_of(text, BREAKOUT, MOST_STEPS)) == text
    except ValueError as error:
        said = str(error)
    assert said.endswith(".")


REFUSED = {
    "words": "left",
    "no actions": "412.",
    "no step": "a3",
    "an action that the game lacks": "412.e",
    "an action in two pieces": "412.aa",
    "a count of one": "412.a1",
    "a count of none": "412.a0",
    "digits of another script": "٤.a",
    "a step in two spellings": "0412.a",
    "past the end of every game": f"{MOST_STEPS - 2}.a3",
    "a count without end": "1.a" + "9" * 3000,
    "one that begins before the other": "412.a9-400.b",
    "one that goes on where the other ends": "412.a9-421.b",
    "too many changes": "1." + "ab" * (MOST_LETTERS // 2),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_takeovers_that_cannot_be_are_refused_in_a_sentence(text):
    with pytest.raises(ValueError, match=r"\.$"):
        takeovers_of(text, BREAKOUT, MOST_STEPS)


def test_what_nobody_plays_by_hand_cannot_be_taken_over(arcade):
    client = TestClient(Starlette(routes=routes(arcade.sessions, arcade.broadcasts)))
    for address in ("takeovers=4.a", "from=4"):
        answer = client.post(f"/arcade/takeover?agent=pendulum&{address}")
        assert (answer.status_code, answer.json()["error"][-1]) == (400, ".")
    for asked in ("agent=nobody", "agent=cartpole&from=-1", "agent=cartpole&speed=99", "agent=breakout&takeovers=x"):
        assert client.post(f"/arcade/takeover?{asked}").status_code == 400


HELD = [["right"], ["left"], [AGENT], ["fire"], ["right"]]
"""What the visitor of the next tests does, twelve steps each."""


def taken_over(asked: dict[str, str], first: int) -> tuple[list[dict], str]:
    """The headers of all steps that a visitor meets from a step on, and how a link names what was played."""
    spec = spec_of(asked)
    headers, by_hand = [], []
    with closing(TakenGame(spec, agent_of(spec), first)) as game:
        while not game.get_ready():
            pass
        for held in HELD:
            game.pad.hold(held)
            for _ in range(12):
                if not game.over:
                    headers.append(header_of(game.step()))
    for header in headers:
        if header["by_hand"] == [True]:
            action = bytes(header["actions"])
            if by_hand and by_hand[-1].end == header["first"]:
                by_hand[-1] = by_hand[-1]._replace(actions=by_hand[-1].actions + action)
            else:
                by_hand.append(Takeover(header["first"], action))
    return headers, written(tuple(by_hand))


@pytest.mark.parametrize(
    "asked",
    [
        {"agent": "breakout", "seed": "7"},
        {"agent": "breakout", "seed": "7", "protocol": "sticky", "nudges": "50.2-70.3"},
        {"agent": "pong_lstm", "seed": "3"},
    ],
    ids=["drawn actions", "sticky and nudged", "with a memory"],
)
def test_the_link_of_a_game_that_was_taken_over_is_that_game(asked):
    """To the last step: what was done, what it earned, what the agent made of it."""
    met, takeovers = taken_over(asked, 60)
    assert len(met) == 12 * len(HELD)
    assert takeovers.count("-") == 1
    spec = spec_of(asked | {"takeovers": takeovers})
    streamed: dict[str, list] = {"actions": [], "rewards": [], "values": [], "policies": []}
    with closing(chunks(spec, agent_of(spec))) as game:
        for part in game:
            header = header_of(part.chunk)
            for key, told in streamed.items():
                told += header[key]
            if len(streamed["actions"]) >= 60 + len(met):
                break
    for key, told in streamed.items():
        assert told[60 : 60 + len(met)] == [header[key][0] for header in met]


def test_a_link_is_replayed_to_the_score_that_the_visitor_saw():
    asked = {"agent": "cartpole", "seed": "5"}
    met, takeovers = taken_over(asked, 30)
    assert met[-1]["over"]
    outcome = replay(asked | {"takeovers": takeovers})
    assert (outcome.score, outcome.steps) == (30 + len(met), 30 + len(met))
    assert replay(asked).score == 500
    assert outcome.spec == spec_of(asked | {"takeovers": takeovers})


def test_the_hand_goes_before_a_nudge_and_the_agent_looks_on():
    agent, takeovers = zoo.load("breakout"), (Takeover(10, bytes([2] * 4)),)
    nudged = (Perturbation(9, "3"),)
    game = play(agent, 3, perturbations=nudged, takeovers=takeovers, max_steps=20)
    assert game.actions[9:17].tolist() == [3, 2, 2, 2, 2, 3, 3, 3]
    plain = list(islice(playback_steps(agent, 3, perturbations=nudged), 11))
    assert game.values[:11].tolist() == [step.value for step in plain]


def test_a_moment_after_the_end_is_refused_in_a_sentence():
    with closing(TakenGame(spec_of({"agent": "cartpole"}), zoo.load("cartpole"), 600)) as game:
        while not game.get_ready():
            pass
        assert game.over
        assert game.step() == b""


def test_whoever_goes_back_to_a_long_game_that_was_taken_over_gets_it():
    takeovers = "0." + "ab" * (MOST_LETTERS // 2 - 1)
    event = SimpleNamespace(_data={"query": urlencode({"agent": "breakout", "takeovers": takeovers})})
    assert spec_of(query_of(event)) == spec_of({"agent": "breakout", "takeovers": takeovers})


def player(page: Page, state: str) -> None:
    """Waits for who has the controls."""
    expect(page.locator(".player")).to_have_attribute("data-hands", state)


def returned(page: Page) -> str:
    return re.search(r"with a return of ([\d,]+)\.", page.locator(".player .said").first.inner_text())[1]


@needs_chromium
@pytest.mark.timeout(300)
def test_a_game_that_was_taken_over_at_step_412_ends_the_same_in_another_browser(app, browser):
    game = "?agent=breakout&protocol=sticky&seed=5"
    with visit(browser, app, f"{game}&at=411") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        canvas = page.locator(".player canvas").first
        expect(canvas).to_have_attribute("data-step", re.compile(r"41\d|4[2-9]\d"))
        page.get_by_role("button", name="Play or pause").click()
        while (step := int(canvas.get_attribute("data-step"))) > 411:
            page.get_by_role("button", name="One step back").click()
            expect(canvas).to_have_attribute("data-step", str(step - 1))
        page.get_by_role("button", name="Take over").click()
        player(page, "mine")
        expect(page.locator(".rival .name")).to_have_text("The agent alone")
        page.keyboard.down("ArrowRight")
        page.wait_for_timeout(400)
        page.keyboard.up("ArrowRight")
        page.keyboard.press("t")
        player(page, "agent")
        page.wait_for_timeout(300)
        page.keyboard.press("t")
        player(page, "mine")
        page.keyboard.down(" ")
        player(page, "")  # the last ball is lost
        said = page.locator(".player .said").first
        expect(said).to_contain_text("The game ended after")
        score = returned(page)
        page.get_by_role("button", name="Copy the result").click()
        copied = page.evaluate("navigator.clipboard.readText()")
    assert re.match(r"I (took|got)", copied)
    assert "takeovers=412." in copied
    with visit(browser, app, copied.partition(app.url)[2]) as other:
        expect(other.locator(".player .name").first).to_contain_text("taken over at step 412")
        expect(other.locator(".rival")).to_be_visible()

        def ended() -> bool:
            other.locator(".player canvas").first.press("End")
            return "ended after" in other.locator(".player .said").first.inner_text()

        assert wait_until(ended, 60)
        assert returned(other) == score
