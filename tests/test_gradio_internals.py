"""Each thing that Gradio does not promise, on a real page of its own: an upgrade that breaks one is told here.

What needs the whole app is tested with it: a page below a proxy's path, its first script and its modules in
`tests/test_app_hub.py`, the end of the server in `tests/serving.py`.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import gradio as gr
import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import ui
from tests.processes import wait_until
from ui.gradio_internals import (
    API,
    HEAD,
    ROOT,
    UNNEEDED,
    answer_arrivals_at_once,
    before_gradios_own,
    close,
    give_up_silent_connections,
    given,
    look_at_queue_every,
    naming_events,
    naming_values,
    root_of,
    taking_anything,
    told_by,
    when_left,
)

LATER = "chosen later"
"""No choice of the page's radio button."""


class Served(NamedTuple):
    """A page of Gradio's, and what it was told."""

    page: gr.Blocks
    url: str
    asked: list[str]
    """Paths, as the middleware saw them."""
    left: list[str]
    """Sessions whose page was closed."""

    def call(self, number: int, *values: object, told: object = None) -> list:
        """What a handler answers that is not in the queue."""
        body = {"data": values, "fn_index": number, "session_hash": "h", "event_data": told}
        answer = httpx.post(f"{self.url}{API[1:]}/run/predict", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def number(self, name: str) -> int:
        """Of the handler of that name."""
        return next(each["id"] for each in self.config()["dependencies"] if each["api_name"] == name)

    def config(self) -> dict:
        return httpx.get(f"{self.url}config").json()


@naming_values("first", "second")
def joined(shared: list[str], request: gr.Request | None, *values: object) -> str:
    return " ".join([*shared, str(values), request.client.host if request else "nobody"])


def tell(event: gr.EventData) -> str:
    return str(told_by(event))


def leave(left: list[str], request: gr.Request) -> None:
    left.append(request.session_hash)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A small page that uses them all."""
    asked, left = [], []

    class Noting:
        def __init__(self, app: ASGIApp) -> None:
            self.app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            asked.append(scope.get("path", ""))
            await self.app(scope, receive, send)

    def ours(request: Request) -> Response:
        return PlainTextResponse("ours")

    with gr.Blocks(analytics_enabled=False) as page:
        radio, boxes, out = gr.Radio(["a", "b"], value="a"), [gr.Textbox(), gr.Textbox()], gr.Textbox()
        taking_anything(radio)
        custom = gr.HTML(js_on_load=f"trigger(name){naming_events(['over'])}")
        radio.input(lambda value: value, radio, out, api_name="echo", queue=False)
        custom.over(tell, None, out, api_name="tell", queue=False)
        out.change(given(joined, ["shared"]), boxes, out, api_name="joined", queue=False)
        page.load(root_of, None, out, api_name="root")
        when_left(page, given(leave, left))
    answer_arrivals_at_once(page)
    page.queue()
    look_at_queue_every(page, 0.03)
    routes = [Route(f"{API}/upload", ours, methods=["POST"]), Route("/ours", ours)]
    page.launch(
        prevent_thread_lock=True, quiet=True, ssr_mode=False, **before_gradios_own(routes, [Middleware(Noting)])
    )
    give_up_silent_connections(page, 7.5)
    yield Served(page, page.local_url, asked, left)
    close(page, 1)


def test_a_handler_is_given_what_is_shared_the_request_and_its_inputs(served):
    (said,) = served.call(served.number("joined"), "x", "y")
    assert said == "shared ('x', 'y') 127.0.0.1"


def test_programs_are_told_the_names_of_values(served):
    told = httpx.get(f"{served.url}{API[1:]}/info").json()["named_endpoints"]["/joined"]["parameters"]
    assert [each["parameter_name"] for each in told] == ["first", "second"]


@pytest.mark.parametrize("told", [{"name": "pong", "at": [1]}, {}])
def test_a_script_tells_something_with_an_event_of_its_own(served, told):
    assert served.call(served.number("tell"), told=told) == [str(told)]


@pytest.mark.parametrize("told", [None, "words", ["a"], 7])
def test_what_is_no_object_tells_nothing(served, told):
    assert served.call(served.number("tell"), told=told) == ["{}"]


def test_a_radio_button_hands_on_what_is_none_of_its_choices(served):
    assert served.call(served.number("echo"), LATER) == [LATER]


def test_what_happens_when_a_page_is_opened_is_not_queued(served):
    loads = [each for each in served.config()["dependencies"] if any(kind == "load" for _, kind in each["targets"])]
    assert [each["api_name"] for each in loads] == ["root"]
    assert not loads[0]["queue"]


def test_the_idle_queue_is_looked_at_that_seldom(monkeypatch):
    (page, arcade), slept = ui.build(), []
    queue, others_sleep = page._queue, asyncio.sleep

    async def sleep(seconds):
        if not threading.current_thread().name.startswith("idle"):  # another server of this process
            await others_sleep(seconds)
            return
        slept.append(seconds)
        queue.stopped = len(slept) >= 3

    monkeypatch.setattr("gradio.queueing.asyncio.sleep", sleep)
    with ThreadPoolExecutor(1, "idle") as other:  # a browser may have a loop in this thread
        other.submit(asyncio.run, queue.start_processing()).result(30)
    arcade.close()
    assert slept == [ui.QUEUE_SECONDS] * 3
    assert ui.QUEUE_SECONDS >= 0.01


def test_who_closes_a_page_is_told(served):
    with httpx.stream("GET", f"{served.url}{API[1:]}/heartbeat/closes", timeout=30) as beats:
        next(beats.iter_raw())
    assert wait_until(lambda: "closes" in served.left, 30)


def test_our_routes_and_middleware_come_before_gradios(served):
    assert httpx.get(f"{served.url}ours").text == "ours"
    assert httpx.post(f"{served.url}{API[1:]}/upload").text == "ours"
    assert {"/ours", f"{API}/upload"} < set(served.asked)


@pytest.mark.parametrize("name", UNNEEDED)
def test_what_this_page_does_not_need_is_still_called_so(name):
    with gr.Blocks() as page:
        gr.Textbox()
    offered = {getattr(route, "path", "") for route in routes_of(gr.routes.App.create_app(page))}
    assert any(path.startswith(f"{API}/{name}") for path in offered)


def routes_of(app: Starlette) -> list:
    """All routes of an app, those of routers that it includes too, which FastAPI keeps whole."""
    parts = [getattr(each, "original_router", each) for each in app.routes]
    return [route for each in parts for route in getattr(each, "routes", [each])]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone gives up silent connections")
def test_who_loses_the_network_without_a_word_is_given_up_in_time(served):
    server = served.page.server
    with socket.create_connection(server.servers[0].sockets[0].getsockname()) as mine:
        assert wait_until(lambda: accepted_from(server, mine.getsockname()), 30)
        accepted = accepted_from(server, mine.getsockname())
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7500


def accepted_from(server, address):
    sockets = [each.transport.get_extra_info("socket") for each in list(server.server_state.connections)]
    return next((each for each in sockets if each.getpeername() == address), None)


def test_a_page_knows_its_address_as_its_visitor_does(served):
    body = {"data": [], "fn_index": served.number("root"), "session_hash": "h"}
    headers = {"x-forwarded-host": "arcade.example.org", "x-forwarded-proto": "https"}
    answer = httpx.post(f"{served.url}{API[1:]}/run/predict", json=body, headers=headers)
    assert answer.json()["data"] == ["https://arcade.example.org"]


def test_the_page_has_a_head_and_a_script_that_tells_where_it_is(served):
    page = httpx.get(served.url).content
    assert page.count(HEAD) == 1
    assert re.match(r"\(window\.(\w+)", ROOT)[1].encode() in page


def test_the_scripts_know_how_an_address_names_the_theme():
    known = (Path(ui.__file__).parent / "gradio_internals.js").read_text()
    word = re.search(r'THEME = "(\w+)"', known)[1]
    assets = Path(gr.__file__).parent / "templates" / "frontend" / "assets"
    assert any(word in file.read_text() for file in assets.glob("*.js"))
