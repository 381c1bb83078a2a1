"""The board of the day: each score is one that the server has found itself, in a game that is the same for all."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from types import SimpleNamespace
from urllib.parse import parse_qs, parse_qsl, urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect
from starlette.applications import Starlette
from starlette.testclient import TestClient

import ui.board.days
import ui.board.referee
import ui.board.routes
from playback.takeover import Takeover
from tests.browsing import leaving, needs_chromium, visit
from tests.processes import wait_until
from tests.serving import App
from training.recipes import RECIPES
from ui.admission import Admission, PerDay
from ui.board.days import GRACE, day_of, seed_of
from ui.board.names import MOST_LETTERS, NOBODY, cleaned
from ui.board.referee import SETTING, Referee, referee_of_host
from ui.board.routes import routes
from ui.board.store import DAYS, PLACES, Board, Declined, Entry, Store
from ui.play.game import Game
from ui.streaming.chunks import header_of
from ui.streaming.replay import replay
from ui.streaming.takeovers import written

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
DAY, SEED = NOON.date(), 20261124
BOARD = Board("CartPole-v1", DAY)
FALL = {"agent": "cartpole", "seed": str(SEED), "takeovers": "0.a40"}
"""Forty pushes to the left; the pole falls long before the last."""


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A day on which the tests can rely."""
    told = SimpleNamespace(now=NOON)
    monkeypatch.setattr(ui.board.days, "now", lambda: told.now)
    return told


@pytest.fixture
def judge():
    """Boards of the test's own."""
    made = Referee(Store())
    yield made
    made.end()


@pytest.fixture
def client(judge):
    """Who asks for these boards."""
    return TestClient(Starlette(routes=routes(judge)))


def entry(score: float = 10.0, **changes: object) -> Entry:
    """A visitor's game; each has moves of its own."""
    entry.made = getattr(entry, "made", 0) + 1
    made = Entry("Ada", score, 40, 7, "agent=cartpole", "cartpole", "w", f"moves {entry.made}")
    return made._replace(**changes)


NAMES = {
    "  Ada\t Lovelace\n": "Ada Lovelace",
    "ｆｕｌｌ width": "full width",
    "\u202egnp.exe\u200b\u0000\x1b[2J": "gnp.exe[2J",
    "\u3164\u2800 \u200d": NOBODY,
    "": NOBODY,
    "<b>Ada</b>": "<b>Ada</b>",  # the page sets it as text
    "\ufdfa" * 300: "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064a\u0647 \u0648\u0633\u0644\u0645",
}


@pytest.mark.parametrize(("told", "kept"), NAMES.items(), ids=map(ascii, NAMES.values()))
def test_a_name_is_cleaned(told, kept):
    assert cleaned(told).startswith(kept)


@given(st.text(max_size=300))
def test_whatever_is_sent_a_name_has_ink_fits_and_is_cleaned_once(text):
    name = cleaned(text)
    assert 0 < len(name) <= MOST_LETTERS
    assert name == name.strip()
    assert cleaned(name) == name


@given(st.dates(min_value=date(2000, 1, 1)))
def test_a_seed_names_its_day(day):
    assert day_of(seed_of(day)) == day
    assert day_of(seed_of(day) - day.day) is None  # the zeroth of the month


def test_the_best_game_stands_first_and_of_equal_ones_the_earlier():
    store = Store()
    places = [store.enter(BOARD, entry(score, name=name)) for score, name in [(5, "a"), (9, "b"), (5, "c"), (7, "d")]]
    assert places == [1, 1, 3, 2]
    assert [each.name for each in store.entries(BOARD)] == ["b", "d", "a", "c"]
    assert store.entries(BOARD._replace(env="ALE/Pong-v5")) == []


def test_a_board_keeps_so_many_games_of_visitors_besides_the_agents():
    store = Store()
    store.enter(BOARD, entry(0, by_hand=0, name="cartpole"))
    for score in range(PLACES):
        store.enter(BOARD, entry(10 + score))
    with pytest.raises(Declined, match=rf"room for {PLACES} games.*\.$"):
        store.enter(BOARD, entry(10))
    assert store.enter(BOARD, entry(11)) == PLACES
    assert [each.score for each in store.entries(BOARD)][-3:] == [11, 11, 0]
    assert len(store.entries(BOARD)) == PLACES + 1


def test_boards_are_kept_for_so_many_days():
    store, days = Store(), [date(2026, 11, day) for day in range(1, DAYS + 3)]
    for day in days:
        store.enter(Board("CartPole-v1", day), entry())
    assert [day for day in days if store.entries(Board("CartPole-v1", day))] == days[-DAYS:]


def test_a_file_keeps_the_boards_but_no_game_of_an_agent_that_has_changed(tmp_path):
    path = tmp_path / "board.sqlite3"
    before = Store(path)
    before.enter(BOARD, entry(3, name="Ada"))
    before.enter(BOARD, entry(4, name="Bob", weights="older"))
    before.close()
    after = Store(path)
    assert [each.name for each in after.entries(BOARD)] == ["Bob", "Ada"]
    after.forget_others({"cartpole": "w"})
    assert [each.name for each in after.entries(BOARD)] == ["Ada"]
    after.close()


def test_a_game_comes_onto_the_board_once_and_with_the_score_that_it_has(client):
    outcome = replay(FALL)
    answer = client.post("/arcade/board", params=FALL | {"name": " Ada\u202e ", "score": str(outcome.score)})
    assert answer.is_success
    placed = answer.json()
    board = client.get("/arcade/board", params={"env": BOARD.env, "seed": SEED}).json()
    (told,) = [each for each in board["entries"] if each["by_hand"]]
    assert (board["day"], board["open"]) == ("2026-11-24", True)
    assert (told["name"], told["score"], told["by_hand"]) == ("Ada", outcome.score, outcome.steps)
    assert placed == {"place": 1, "score": outcome.score, "query": told["query"]}
    linked = dict(parse_qsl(told["query"]))
    assert linked["takeovers"] == f"0.a{outcome.steps}"  # what comes after the end is no part of the game
    assert replay(linked).score == outcome.score
    for other in (FALL, FALL | {"takeovers": "0.a39"}, FALL | {"snapshot": "5", "name": "Eve"}):
        again = client.post("/arcade/board", params=other)
        assert (again.status_code, again.json()["error"]) == (
            409,
            "This very game is on the board already, by Ada.",
        )


@pytest.mark.parametrize("score", ["500", "-1", "nan", "inf", "9" * 400])
def test_a_forged_score_is_refused(judge, client, score):
    answer = client.post("/arcade/board", params=FALL | {"name": "Eve", "score": score})
    assert answer.status_code == 409
    assert re.fullmatch(r"Played again, this game scores \d+, not \S+\.", answer.json()["error"])
    assert [each for each in judge.entries(BOARD) if each.by_hand] == []


UNFAIR = {
    "another seed": ({"seed": "7"}, "takes games of seed 20261124, and this one has seed 7"),
    "yesterday's seed": ({"seed": "20261123"}, "and this one has seed 20261123"),
    "tomorrow's seed": ({"seed": "20261125"}, "and this one has seed 20261125"),
    "the agent's own game": ({"takeovers": ""}, "the agent's own game"),
    "sticky actions": ({"agent": "pong", "protocol": "sticky"}, "without sticky actions"),
    "nudges": ({"nudges": "3.left"}, "without sticky actions and nudges"),
    "a game that nobody plays": ({"agent": "pendulum", "takeovers": ""}, "games that people can play"),
    "no agent": ({"agent": "nobody"}, "Choose an agent"),
    "no game": ({"takeovers": "x"}, "Takeovers are steps"),
    "words for a score": ({"score": "all"}, "must be a number"),
}


@pytest.mark.parametrize(("changes", "says"), UNFAIR.values(), ids=UNFAIR)
def test_what_is_not_the_game_of_the_day_is_refused_unplayed(client, monkeypatch, changes, says):
    monkeypatch.setattr(ui.board.referee, "replay", None)
    answer = client.post("/arcade/board", params=FALL | changes)
    assert answer.status_code == 400
    assert says in answer.json()["error"]


def test_a_game_of_which_no_step_is_a_visitors_is_refused(client):
    answer = client.post("/arcade/board", params=FALL | {"takeovers": "600.a"})
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("You have played no step of this game.")


def test_a_game_that_began_before_midnight_is_taken_for_an_hour(client, clock):
    clock.now = datetime(2026, 11, 25, tzinfo=UTC) + GRACE / 2
    assert client.post("/arcade/board", params=FALL).status_code == 200
    clock.now += GRACE
    assert client.post("/arcade/board", params=FALL).status_code == 400
    board = client.get("/arcade/board", params={"env": BOARD.env, "seed": SEED}).json()
    assert (board["open"], board["entries"][0]["name"]) == (False, NOBODY)


@pytest.mark.parametrize("asked", [{"seed": "7"}, {"seed": "20261125"}, {"seed": "20261101"}, {"env": "Pendulum-v1"}])
def test_there_is_no_board_of_other_games_and_days(client, asked):
    answer = client.get("/arcade/board", params={"env": BOARD.env, "seed": SEED} | asked)
    assert answer.status_code == 404
    assert answer.json()["error"].endswith(".")


def test_the_agents_play_the_game_of_the_day_by_themselves(client):
    def asked() -> dict:
        return client.get("/arcade/board", params={"env": BOARD.env, "seed": SEED}).json()

    assert asked()["coming"]
    assert wait_until(lambda: not asked()["coming"], 60)
    (told,) = asked()["entries"]
    assert (told["name"], told["score"], told["by_hand"]) == ("cartpole", 500, 0)
    assert parse_qs(told["query"]) == {
        "agent": ["cartpole"],
        "seed": [str(SEED)],
        "snapshot": ["100"],
        "actions": ["greedy"],
    }


def test_a_match_of_the_play_tab_is_such_a_game(client):
    """Whatever is pressed: it is the agent's game, taken over at its first step."""
    actions, rewards = bytearray(), 0.0
    game = Game(RECIPES["breakout"], SEED)
    try:
        while not game.over and len(actions) < 400:
            game.pad.hold([["fire"], ["left"], [], ["right"]][len(actions) // 9 % 4])
            told = header_of(game.step())
            actions += bytes(told["actions"])
            rewards += told["rewards"][0]
    finally:
        game.close()
    assert game.over
    asked = {"agent": "breakout", "seed": str(SEED), "takeovers": written((Takeover(0, bytes(actions)),))}
    answer = client.post("/arcade/board", params=asked | {"score": str(rewards)})
    assert (answer.json()["place"], answer.json()["score"]) == (1, rewards)


def test_a_visitor_has_so_many_games_checked_a_day(judge, monkeypatch):
    monkeypatch.setattr(ui.board.routes, "EACH_DAY", 1)
    app = Starlette(routes=routes(judge))
    visitor = TestClient(app, client=("192.0.2.7", 1234))
    assert visitor.post("/arcade/board", params=FALL | {"seed": "7"}).status_code == 400  # costs nothing
    assert visitor.post("/arcade/board", params=FALL).status_code == 200
    answer = visitor.post("/arcade/board", params=FALL | {"takeovers": "0.b40"})
    assert answer.status_code == 429
    assert answer.json()["error"].startswith("1 games have been checked for your address today.")
    assert (
        TestClient(app, client=("192.0.2.8", 1234))
        .post("/arcade/board", params=FALL | {"takeovers": "0.b40"})
        .is_success
    )


def test_only_so_many_games_are_checked_at_once(judge, client):
    judge.checks = Admission(at_once=0, waiting=0)
    answer = client.post("/arcade/board", params=FALL)
    assert answer.status_code == 503
    assert answer.json()["error"].startswith("Many games are being checked right now.")


def test_a_new_day_is_a_new_share():
    days = iter([DAY, DAY, date(2026, 11, 25)])
    share = PerDay(1, "games", lambda: next(days))
    share.count("192.0.2.7")
    share.count("192.0.2.7")


@contextmanager
def boards_of_host() -> Iterator[Referee]:
    """Those that the host wants."""
    made = referee_of_host()
    yield made
    made.end()


def test_a_host_names_the_place_of_the_boards(monkeypatch, tmp_path):
    monkeypatch.setenv(SETTING, str(tmp_path / "kept"))
    with boards_of_host() as before:
        assert before.enter(FALL).place == 1
    with boards_of_host() as after:
        assert [each.name for each in after.entries(BOARD)] == [NOBODY]


def test_a_host_can_do_without_boards(monkeypatch):
    monkeypatch.setenv(SETTING, "off")
    client = TestClient(Starlette(routes=routes(referee_of_host())))
    for answer in (client.post("/arcade/board", params=FALL), client.get("/arcade/board", params=FALL)):
        assert (answer.status_code, answer.json()) == (404, {"error": "This arcade keeps no boards."})


@pytest.mark.parametrize("content", [b"not a database, but long enough to be taken for one" * 9, None])
def test_a_place_that_cannot_keep_boards_is_told_and_left_alone(monkeypatch, tmp_path, capsys, content):
    place = tmp_path / "kept"
    if content is None:
        place.write_text("a file")
    else:
        place.mkdir()
        (place / "board.sqlite3").write_bytes(content)
    monkeypatch.setenv(SETTING, str(place))
    with boards_of_host() as made:
        assert made.entries(BOARD) == []
    assert capsys.readouterr().err.startswith(f"The boards cannot be kept in {place} (")
    assert content is None or (place / "board.sqlite3").read_bytes() == content


def test_the_app_takes_a_game_and_no_ten_megabytes(app: App):
    asked = {"agent": "cartpole", "seed": seed_of(datetime.now(UTC).date()), "takeovers": "0.b40", "name": "<i>Eve"}
    large = httpx.post(f"{app.url}arcade/board?{urlencode(asked)}", content=b"x" * 10 * 2**20)
    assert (large.status_code, large.json()["error"][:26]) == (413, "That is too much at once: ")
    board = f"{app.url}arcade/board?env=CartPole-v1&seed={asked['seed']}"
    assert "<i>Eve" not in [each["name"] for each in httpx.get(board).json()["entries"]]
    assert httpx.post(f"{app.url}arcade/board?{urlencode(asked)}").status_code == 200
    assert "<i>Eve" in [each["name"] for each in httpx.get(board).json()["entries"]]


@needs_chromium
def test_who_has_played_the_game_of_the_day_puts_it_on_the_board(app: App, browser: Browser):
    """By keys alone; the name is no HTML, and the entry leads to the game."""
    seed = seed_of(datetime.now(UTC).date())
    with visit(browser, app, f"?play=cartpole&seed={seed}") as page:
        expect(page.locator("#play-screen .board h3")).to_have_text("Today’s board")
        page.keyboard.press("Enter")
        name = page.locator("#play-screen").get_by_label("Your name on the board")
        expect(name).to_be_visible()
        name.press_sequentially("<b>k t</b>")
        name.press("Enter")
        mine = page.locator("#play-screen .board .mine")
        expect(mine).to_have_count(1)
        expect(mine.locator(".name")).to_have_text("<b>k t</b>")
        expect(mine.locator(".share")).to_have_text("by hand")
        expect(name).to_be_hidden()
        score = mine.locator(".score").inner_text()
        with leaving(page):
            mine.locator(".name").press("Enter")
            expect(page.locator("#watch-player .player .note").first).to_have_text(f"Return {score}")
        expect(page.locator("#watch-player .board .name", has_text="<b>k t</b>")).to_be_visible()
