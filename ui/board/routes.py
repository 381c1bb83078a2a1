"""What a page asks for of the boards: one of them, and a place on it for a visitor's game."""

import sqlite3

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ui.admission import Busy, PerDay, PerVisitor, TooMany
from ui.board.days import open_days, today
from ui.board.referee import asked_board, fair_spec, referee
from ui.board.store import Declined
from ui.streaming.routes import FAILURES, Refused, answer_to, refusal
from ui.visitors import address_of

CHECKS_OF_ONE_VISITOR = PerVisitor(2, "games are being checked")
CHECKS_OF_ONE_DAY = PerDay(60, "games have been checked", today)
THREADS = CapacityLimiter(10)
"""For who waits for a check. Some are left to refuse the others."""
NONE_HERE = "This arcade keeps no boards."
BUSY = "Many games are being checked right now. Please try again in a minute."
BROKEN = "The board cannot be reached at the moment. Please try later."


def board(request: Request) -> Response:
    """GET /arcade/board?env=ALE/Breakout-v5&seed=20261124: a board, the best game first. It is `open` while it takes
    games, and some are `coming` while agents play theirs."""
    if (judge := referee()) is None:
        return refusal(404, NONE_HERE)
    try:
        asked = asked_board(request.query_params)
        coming = judge.let_agents_play(asked)
        shown = ("name", "score", "steps", "by_hand", "query")
        entries = [{field: getattr(entry, field) for field in shown} for entry in judge.entries(asked)]
    except Refused as error:
        return refusal(404, str(error))
    except sqlite3.Error:
        return refusal(503, BROKEN)
    told = {"day": asked.day.isoformat(), "open": asked.day in open_days(), "coming": coming, "entries": entries}
    return JSONResponse(told, headers={"Cache-Control": "no-store"})


async def enter(request: Request) -> Response:
    """POST /arcade/board?agent=breakout&seed=20261124&takeovers=0.b3a12&name=Ada&score=12: puts a game on its board,
    once it has been played again. The score is what the visitor has seen, and may be left out."""
    asked = request.query_params
    if (judge := referee()) is None:
        return refusal(404, NONE_HERE)
    address = address_of(request)
    try:
        fair_spec(asked)  # what cannot be costs nothing
        with CHECKS_OF_ONE_VISITOR.one(address):
            CHECKS_OF_ONE_DAY.count(address)
            placed = await to_thread.run_sync(judge.enter, asked, limiter=THREADS)
    except Declined as error:
        return refusal(409, str(error))
    except TooMany as error:
        return refusal(429, str(error))
    except Busy:
        return refusal(503, BUSY)
    except sqlite3.Error:
        return refusal(503, BROKEN)
    except FAILURES as failure:
        return refusal(*answer_to(failure, asked))
    return JSONResponse(placed._asdict())


ROUTES = [Route("/arcade/board", board), Route("/arcade/board", enter, methods=["POST"])]
