"""What programs ask of the app by name."""

import re
from contextlib import contextmanager
from types import SimpleNamespace

import gradio as gr
import pytest
from anyio.from_thread import start_blocking_portal
from gradio_client import Client
from gradio_client.exceptions import AppError
from hypothesis import given
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, Tool

import zoo
from a3c_core.evaluation import evaluate
from tests.anything import ANYTHING
from tests.serving import ROOT, App
from ui import api
from ui.admission import Admission
from ui.api import Evaluations
from ui.settings import SETTINGS


def test_the_agents_are_those_of_the_zoo():
    told = {agent["name"]: agent for agent in api.agents()}
    assert list(told) == list(zoo.entries())
    assert told["pong"]["mean"] == zoo.entries()["pong"].score.mean
    assert told["pong"]["snapshots"] == [0, 1, 5, 25, 100]


def test_a_program_lists_the_agents_and_has_one_evaluated(app: App):
    client = Client(app.url, verbose=False, analytics_enabled=False)
    assert client.predict(api_name="/agents") == api.agents()
    told = client.predict("cartpole", 3, 5, "classic", api_name="/evaluate")
    score = evaluate(zoo.load("cartpole"), 3, first_seed=5)
    assert told["returns"] == list(score.returns)
    assert told["conditions"] == "3 games, greedy actions, seeds 5 to 7"
    with pytest.raises(AppError, match="Games must be a whole number from 1 to 20"):
        client.predict("cartpole", 21, 0, "classic", api_name="/evaluate")


def test_the_readmes_client_runs_as_printed(app: App):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code, *_ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    *before, last = code.strip().splitlines()
    names = {}
    exec("\n".join(before).replace("http://127.0.0.1:7860", app.url), names)
    told = eval(last, names)
    assert told["returns"] == list(zoo.entries()["cartpole"].score.returns[:3])


def test_an_agent_of_another_kind_finds_its_tools_and_uses_one(app: App):
    """By the Model Context Protocol, through its own client."""

    async def talk() -> tuple[dict[str, Tool], CallToolResult, CallToolResult]:
        async with (
            streamable_http_client(f"{app.url}gradio_api/mcp/") as (receive, send, _),
            ClientSession(receive, send) as session,
        ):
            await session.initialize()
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            scored = await session.call_tool("evaluate", {"agent": "cartpole", "games": 2})
            return tools, scored, await session.call_tool("evaluate", {"agent": "nobody"})

    with start_blocking_portal() as elsewhere:  # this thread may have a loop already, the browser's
        tools, scored, refused = elsewhere.call(talk)
    assert {"agents", "watch", "evaluate", "train", "compare", "stop"} == set(tools)
    assert all(tool.description for tool in tools.values())
    assert list(tools["evaluate"].inputSchema["properties"]) == ["agent", "games", "first_seed", "protocol"]
    assert "'returns': [500.0, 500.0]" in scored.content[0].text
    assert refused.isError
    assert refused.content[0].text.startswith("Choose an agent: bipedal_walker or bipedal_walker_hardcore or breakout")


def test_each_setting_of_a_training_goes_by_its_name(app: App):
    told = Client(app.url, verbose=False, analytics_enabled=False).view_api(return_format="dict")
    names = [each["parameter_name"] for each in told["named_endpoints"]["/train"]["parameters"]]
    assert names == ["game", *(setting.field for setting in SETTINGS)]


@given(
    agent=ANYTHING.filter(lambda each: str(each) not in zoo.entries()),
    games=ANYTHING,
    first_seed=ANYTHING,
    protocol=ANYTHING,
)
def test_whatever_is_asked_the_answer_is_a_score_or_a_sentence(agent, games, first_seed, protocol):
    with pytest.raises(gr.Error) as refused:
        Evaluations().evaluate(agent, games, first_seed, protocol)
    assert not refused.value.print_exception
    assert refused.value.message.endswith(".")


def test_where_many_agents_are_being_scored_one_more_is_refused_at_once():
    evaluations = Evaluations()
    evaluations.line = Admission(at_once=1, waiting=0)
    with evaluations.line.turn(), pytest.raises(gr.Error, match="Many agents are being scored"):
        evaluations.evaluate("cartpole", 2)


def test_a_visitor_has_some_evaluations_under_way_and_no_more(monkeypatch):
    monkeypatch.setattr(api, "EACH", 1)
    evaluations = Evaluations()
    visitor, other = (SimpleNamespace(client=SimpleNamespace(host=host)) for host in ("203.0.113.9", "203.0.113.10"))
    with evaluations.of_one_visitor.one("203.0.113.9"):
        with pytest.raises(gr.Error, match="1 evaluations are under way for your address already"):
            evaluations.evaluate("cartpole", 1, request=visitor)
        assert evaluations.evaluate("cartpole", 1, request=other)["returns"] == [500.0]


def test_the_wait_for_a_turn_does_not_count(monkeypatch):
    now, evaluations = [0.0], Evaluations()

    @contextmanager
    def turn():
        now[0] = 1000.0
        yield

    monkeypatch.setattr(api, "time", SimpleNamespace(monotonic=lambda: now[0]))
    evaluations.line = SimpleNamespace(turn=turn)
    assert evaluations.evaluate("cartpole", 1)["returns"] == [500.0]


def test_an_evaluation_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(api, "MOST_SECONDS", 0.0)
    with pytest.raises(gr.Error, match="took longer than 0 seconds: ask for fewer games"):
        Evaluations().evaluate("cartpole", 2)
