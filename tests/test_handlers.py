"""Whatever is sent straight to a handler of the page is answered with what it shows, or with a sentence."""

import re
from types import SimpleNamespace

import gradio as gr
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.anything import ANYTHING, TEXT
from tests.serving import App
from ui.arcade import Arcade
from ui.board.routes import routes as board_routes
from ui.play import tab as human
from ui.play.routes import routes as play_routes
from ui.retrain import tab as retrain
from ui.retrain.comparisons import Comparisons
from ui.retrain.jobs import Jobs
from ui.streaming.routes import routes as broadcast_routes
from ui.streaming.stream import Broadcasts, agent_of
from ui.watch import tab as watch
from ui.watch.hub_agents import HubAgents
from ui.zoo_tab import tab as agents

JOBS = Jobs()
"""No trainings."""

HANDLERS = {
    "another game to watch": (watch.show_game, 5),
    "the next seed to watch": (watch.another_game, 5),
    "the day's game to watch": (watch.todays_game, 5),
    "whether it has a board": (watch.has_board, 1),
    "a link to an agent on the Hub": (lambda query: watch.show_linked(HubAgents(Broadcasts(agent_of)), query), 1),
    "another match": (human.choose, 3),
    "another game to play": (human.choose_game, 2),
    "the next seed to play": (human.another_seed, 3),
    "the day's game to play": (human.todays_game, 3),
    "a game that is watched to play": (human.accept, 2),
    "whether it can be played": (human.offer, 1),
    "the agent's game beside": (lambda told: human.show_rival(SimpleNamespace(_data=told)), 1),
    "an agent's page": (agents.view_of, 1),
    "a card that was clicked": (lambda told: agents.chosen(SimpleNamespace(_data=told)), 1),
    "another game to train": (retrain.preset, 1),
    "stop": (lambda run: retrain.stop(JOBS, run), 1),
    "an earlier training": (lambda run: retrain.look_back(JOBS, run, []), 1),
    "before and after": (Comparisons(JOBS).compare, 1),
}


@pytest.mark.parametrize(("handler", "values"), HANDLERS.values(), ids=HANDLERS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_handler_shows_something_or_says_why_not(handler, values, data):
    sent = [data.draw(ANYTHING) for _ in range(values)]
    said, traced = "Shown.", False
    try:
        assert handler(*sent) is not None
    except gr.Error as error:
        said, traced = error.message, error.print_exception
    assert re.fullmatch(r"\S.{,400}\.", said, re.DOTALL)
    assert "<b>" not in said
    assert not traced


def test_nothing_is_refused_outside_the_queue(app: App):
    """Gradio's page shows no sentence of what is refused there."""
    told = {"query": "play=no+game&tab=retrain&game=no+game&agent=no+agent"}
    unqueued = [each for each in httpx.get(f"{app.url}config").json()["dependencies"] if not each["queue"]]
    asked = [each for each in unqueued if each["backend_fn"]]
    assert len(asked) > 10
    refused = []
    for each in asked:
        body = {"data": [None] * len(each["inputs"]), "fn_index": each["id"], "session_hash": "h", "event_data": told}
        answer = httpx.post(f"{app.url}gradio_api/run/predict", json=body)
        if answer.status_code != 200:
            refused.append((each["targets"], answer.text))
    assert not refused


PLACES = (
    "n",
    "ahead",
    "at",
    "from",
    "step",
    "nudges",
    "takeovers",
    "snapshot",
    "actions",
    "protocol",
    "seed",
    "play",
    "speed",
    "id",
    "keys",
    "env",
    "score",
)


@pytest.fixture(scope="module")
def client(arcade: Arcade) -> TestClient:
    served = broadcast_routes(arcade.broadcasts, arcade.looks, arcade.files)
    served += [*play_routes(arcade.sessions, arcade.broadcasts), *board_routes(arcade.referee)]
    return TestClient(Starlette(routes=served), raise_server_exceptions=False)


PATHS = ("chunk", "saliency", "video", "gif", "live", "takeover", "live/keys", "rival", "board")


@pytest.mark.parametrize("path", PATHS)
@given(query=st.dictionaries(st.sampled_from(PLACES), TEXT | st.integers(-5, 10**9).map(str), max_size=4), agent=TEXT)
@settings(max_examples=30, deadline=None)
def test_no_query_breaks_a_route(client, path, query, agent):
    query = {"agent": f"no {agent}", **query}  # nobody's, so that no game begins
    answer = client.request("GET", f"/arcade/{path}", params=query)
    if answer.status_code == 405:
        answer = client.request("POST", f"/arcade/{path}", params=query | {"play": "no game"})
    assert answer.status_code < 500
    if answer.status_code not in (200, 204):
        assert answer.json()["error"].endswith(".")
