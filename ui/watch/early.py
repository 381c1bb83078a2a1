"""The game that a page's address names begins while the page is still loading: a browser takes longer for the page than
an agent for its first pictures."""

import asyncio

from anyio import to_thread
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ui.broadcast.routes import FAILURES, GAME_THREADS, ticket_of
from ui.broadcast.stream import BROADCASTS
from ui.visitors import address_of

ELSEWHERE = {"play", "tab", "zoo"}
"""What an address asks for whose page does not begin with a game to watch."""


class BeginEarly:
    """ASGI middleware: begins the game that a request for the page names, and answers as ever."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._beginning: set[asyncio.Task] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/":
            asked = Request(scope)
            if "agent" in asked.query_params and not ELSEWHERE & set(asked.query_params):
                task = asyncio.create_task(to_thread.run_sync(begin, asked, limiter=GAME_THREADS))
                self._beginning.add(task)  # nothing else keeps a task from being thrown away
                task.add_done_callback(self._beginning.discard)
        await self.app(scope, receive, send)


def begin(request: Request) -> None:
    """Begins the game that a query names. What cannot begin is told where the player asks for it."""
    try:
        BROADCASTS.get(ticket_of(request.query_params), address_of(request))
    except FAILURES:
        return
