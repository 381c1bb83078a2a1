"""What this app knows of Gradio that Gradio does not promise. Each may break when Gradio is upgraded, so each is here
alone, says why it is needed, and has a test in tests/test_gradio_internals.py that would tell."""

import inspect
import logging
import socket
from collections.abc import Callable, Sequence
from functools import reduce
from inspect import Parameter
from types import MethodType
from typing import Any

import gradio as gr
from gradio.route_utils import API_PREFIX, get_root_url
from starlette.middleware import Middleware
from starlette.routing import Route

API = API_PREFIX
"""Where Gradio's own addresses begin."""
UNNEEDED = ("upload", "component_server", "process_recording", "deep_link")
"""What Gradio offers below that to anybody and this page does not need: files to keep, videos to cut, snapshots."""
FILES = ("/assets/", "/static/", "/theme.css", "/favicon.ico")
"""Where Gradio has files that stay the same while it runs."""
HEAD = b"<head>"
"""Where Gradio's page takes a script that is to run before all others."""
ROOT = '(window.gradio_config?.root || "").replace(/\\/$/, "")'
"""The script that tells where the app is: below a proxy the page alone knows."""


def given(handler: Callable, *shared: object) -> Callable:
    """A handler whose first arguments are these. Gradio reads off the types of a method's parameters, but not of a
    partial's, which ones it is to fill with the request or the event."""
    return reduce(MethodType, shared, handler)


def naming_values(*names: str) -> Callable[[Callable], Callable]:
    """Decorates a handler that ends in `*values`, so that programs are told these names of them: Gradio tells what
    Python's signature does."""

    def decorated(handler: Callable) -> Callable:
        signature = inspect.signature(handler)
        named = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        handler.__signature__ = signature.replace(parameters=[*list(signature.parameters.values())[:-1], *named])
        return handler

    return decorated


def told_by(event: gr.EventData) -> dict[str, Any]:
    """What a page's script tells with an event; nothing where it is no object. Gradio documents attributes alone, which
    raise for what is missing."""
    return event._data if isinstance(event._data, dict) else {}


def naming_events(names: Sequence[str]) -> str:
    """A comment for the `js_on_load` of an HTML component, which has those events alone that stand in quotes there."""
    return f" // triggers {', '.join(map(repr, names))}" if names else ""


def taking_anything(component: gr.components.Component) -> None:
    """Has the component hand on whatever a browser sends. A radio button would refuse what is none of its choices in
    Gradio's own words, and choices that came later are unknown to it."""
    component.preprocess = lambda payload: payload


def answer_arrivals_at_once(page: gr.Blocks) -> None:
    """Takes what happens when a page is opened out of the queue, where it would wait for others' slow work: Gradio's
    own question who has signed in, too."""
    for handler in page.fns.values():
        if any(event == "load" for _, event in handler.targets):
            handler.queue = False


def look_at_queue_every(page: gr.Blocks, seconds: float) -> None:
    """Has the idle queue looked at that seldom. Gradio does it a thousand times a second, and each time stops the
    games: only one thread of Python runs at once."""
    page._queue.sleep_when_free = max(seconds, page._queue.sleep_when_free)


def when_left(page: gr.Blocks, handler: Callable[[gr.Request], None]) -> None:
    """Calls the handler when a page is closed, with the request that tells which; Gradio documents it for functions
    without arguments."""
    page.unload(handler)


def before_gradios_own(routes: Sequence[Route], middleware: Sequence[Middleware]) -> dict[str, Any]:
    """What `Blocks.launch` takes to have these routes asked before Gradio's, of which one answers all that is left."""
    return {"app_kwargs": {"routes": list(routes), "middleware": list(middleware)}}


def give_up_silent_connections(page: gr.Blocks, seconds: float) -> None:
    """Closes connections that have been silent for so long, which ends what was under way for them."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux alone has it
        return
    for server in page.server.servers:
        for listening in server.sockets:  # what it accepts inherits the option
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * seconds))


def close(page: gr.Blocks, seconds: float) -> None:
    """Ends the server, which tidies up. Gradio's streams to open pages never end: after so long they are cut off."""
    page.server.config.timeout_graceful_shutdown = seconds
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # cutting them off is no error
    page.close(verbose=False)


def root_of(request: gr.Request | None) -> str:
    """The address of the page as its visitor sees it, without a slash at its end; empty where nobody asked."""
    if request is None:
        return ""
    asked = request.request
    return get_root_url(asked, asked.url.path, asked.scope.get("root_path") or asked.app.root_path)
