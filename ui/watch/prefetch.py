"""The game that a page's address names begins while the page is still loading: a browser takes longer for the page than
an agent for its first pictures. The browser is told the player's scripts and the first file of a recorded game, and
fetches them meanwhile."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.modules import scripts
from ui.recordings.routes import PLACE
from ui.recordings.shelf import recording_of
from ui.streaming.agent_catalog import zoo_names
from ui.streaming.chunks import EpisodeSpec
from ui.streaming.routes import FAILURES, Refused, spec_of
from ui.streaming.stream import Broadcasts
from ui.visitors import address_of

ELSEWHERE = {"play", "tab", "zoo"}
"""What an address asks for whose page does not begin with a game to watch."""


class Prefetch:
    """ASGI middleware: begins the game of a request for the page, and answers as ever."""

    def __init__(self, app: ASGIApp, broadcasts: Broadcasts) -> None:
        self.app, self._broadcasts = app, broadcasts
        self._beginning: set[asyncio.Task] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/":
            asked = Request(scope)
            if spec := first_game(asked):
                links = [f"<{each}>; rel=modulepreload" for each in scripts("watch/player.js")]
                if game := recording_of(spec):
                    files = (PLACE, PLACE + game.files[0])
                    links += [f"<{each}>; rel=preload; as=fetch; crossorigin" for each in files]
                elif "agent" in asked.query_params:  # the others' was begun before anybody came
                    self._begin(spec, address_of(asked))
                send = naming(links, send)
        await self.app(scope, receive, send)

    def _begin(self, spec: EpisodeSpec, address: str | None) -> None:
        task = asyncio.create_task(begin(self._broadcasts, spec, address))
        self._beginning.add(task)  # nothing else keeps a task from being thrown away
        task.add_done_callback(self._beginning.discard)


def first_game(request: Request) -> EpisodeSpec | None:
    """The game that the page of a request begins with. What is none is told where the player asks for it."""
    if ELSEWHERE & set(request.query_params):
        return None
    with suppress(Refused):
        return spec_of({"agent": zoo_names()[0]} | dict(request.query_params))
    return None


async def begin(broadcasts: Broadcasts, spec: EpisodeSpec, address: str | None) -> None:
    """Begins a game for who is at that address. What cannot begin is told where the player asks for it."""
    with suppress(*FAILURES):
        await broadcasts.begun(spec, address)


def naming(links: Sequence[str], send: Send) -> Send:
    """Has the answer name what its page will fetch, so that the browser need not wait for the scripts to ask for it."""

    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.append("Link", ", ".join(links))
        await send(message)

    return named
