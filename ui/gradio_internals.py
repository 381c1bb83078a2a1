"""What the page takes of Gradio beyond its documented interface: an upgrade of Gradio may break each of these, and the
test that is named with it says so."""

import socket
from inspect import Signature
from typing import Any

import gradio as gr
import uvicorn
from gradio.route_utils import get_root_url
from starlette.requests import Request

UNUSED_ENDPOINTS = ("upload", "component_server", "process_recording", "deep_link")
"""What gradio offers to anybody under /gradio_api/ and this page does not need: files to keep, videos to cut, snapshots
of the page. Test: test_guard.py."""
ROOT_IN_BROWSER = '(window.gradio_config?.root || "").replace(/\\/$/, "")'
"""Where the app is, as its page knows; `base` of ui/chunk.js is the same. Test: test_page.py, below a path."""


def told_by(event: gr.EventData) -> dict[str, Any]:
    """What a component's script hands to `trigger`; empty where that is no object. Test: test_handlers.py."""
    return event._data if isinstance(event._data, dict) else {}


def take_any_value(radio: gr.Radio) -> None:
    """Has a radio button hand on whatever a visitor sends: handlers answer an unknown choice with a sentence, and
    gradio with none. Test: test_handlers.py."""
    radio.preprocess = lambda payload: payload


def never_queue_loads(page: gr.Blocks) -> None:
    """Takes all events of a page that loads out of the queue, gradio's own too, which asks who has signed in. Test:
    test_app_hub.py, no page that is opened waits in the queue."""
    for handler in page.fns.values():
        if any(event == "load" for _, event in handler.targets):
            handler.queue = False


def look_at_queue_every(page: gr.Blocks, seconds: float) -> None:
    """How often the queue of clicks is looked at, at most. Test: test_app.py, an idle queue."""
    page._queue.sleep_when_free = max(seconds, page._queue.sleep_when_free)


def listening_sockets(server: uvicorn.Server) -> list[socket.socket]:
    """Those that a server that has been started takes connections from. Test: test_app.py, silent connections."""
    return [listening for each in server.servers for listening in each.sockets]


def describe(handler: Any, told: Signature) -> None:  # noqa: ANN401
    """What gradio tells programs of a handler's arguments, where Python knows but `*values`. Test: test_api.py."""
    handler.__signature__ = told


def root_url(asked: Request) -> str:
    """The address of the page as its visitor sees it, behind whatever proxies. Test: test_app_hub.py."""
    return get_root_url(asked, asked.url.path, asked.scope.get("root_path") or asked.app.root_path)
