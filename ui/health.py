"""Whether all is well, for who watches over the server."""

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ui.play.sessions import Sessions
from ui.streaming.stream import Broadcasts


def health(broadcasts: Broadcasts, sessions: Sessions, request: Request) -> Response:
    """GET /healthz: the app answers, how many games are under way, how many visitors play one themselves, and what the
    chunks of games take."""
    told = {"games": broadcasts.under_way(), "players": len(sessions), "chunks_mb": round(broadcasts.size / 2**20, 1)}
    return JSONResponse({"status": "ok"} | told)


def routes(broadcasts: Broadcasts, sessions: Sessions) -> list[Route]:
    """What is asked for of a server with these games."""
    return [Route("/healthz", partial(health, broadcasts, sessions))]
