"""What a page asks for of the boards: one of them, and a place on it for a visitor's game."""

import sqlite3
from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ui.admission import Busy, PerDay, PerVisitor, TooMany
from ui.board.days import open_days, today
from ui.board.referee import Referee, asked_board, fair_spec
from ui.board.store import Declined
from ui.streaming.routes import FAILURES, Refused, answer_to, refusal
from ui.visitors import address_of

EACH, EACH_DAY = 2, 60
"""Checks of one visitor that may be under way or waiting, and those of a day."""
THREADS = 10
"""For who waits for a check. Some are left to refuse the others."""
BUSY = "Many games are being checked right now. Please try again in a minute."
BROKEN = "The board cannot be reached at the moment. Please try later."


def board(referee: Referee, request: Request) -> Response:
    """GET /arcade/board?env=ALE/Breakout-v5&seed=20261124: a board, the best game first. It is `open` while it takes
    games, and some are `coming` while agents play theirs."""
    try:
        asked = asked_board(request.query_params)
        coming = referee.let_agents_play(asked)
        shown = ("name", "score", "steps", "by_hand", "query")
        entries = [{field: getattr(entry, field) for field in shown} for entry in referee.entries(asked)]
    except Refused as error:
        return refusal(404, str(error))
    except sqlite3.Error:
        return refusal(503, BROKEN)
    told = {"day": asked.day.isoformat(), "open": asked.day in open_days(), "coming": coming, "entries": entries}
    return JSONResponse(told, headers={"Cache-Control": "no-store"})


class Checks:
    """Visitors' games that are played again before they come onto a board."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._of_one_visitor = PerVisitor(EACH, "games are being checked")
        self._of_one_day = PerDay(EACH_DAY, "games have been checked", today)
        self._threads = CapacityLimiter(THREADS)

    async def enter(self, request: Request) -> Response:
        """POST /arcade/board?agent=breakout&seed=20261124&takeovers=0.b3a12&name=Ada&score=12: puts a game on its
        board, once it has been played again. The score is what the visitor has seen, and may be left out."""
        asked, address = request.query_params, address_of(request)
        try:
            fair_spec(asked)  # what cannot be costs nothing
            with self._of_one_visitor.one(address):
                self._of_one_day.count(address)
                placed = await to_thread.run_sync(self._referee.enter, asked, limiter=self._threads)
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


def none_here(request: Request) -> Response:
    """What is answered where the host wants no boards."""
    return refusal(404, "This arcade keeps no boards.")


def routes(referee: Referee | None) -> list[Route]:
    """What is asked for of the boards that a referee keeps."""
    if referee is None:
        return [Route("/arcade/board", none_here, methods=["GET", "POST"])]
    enter = Checks(referee).enter
    return [Route("/arcade/board", partial(board, referee)), Route("/arcade/board", enter, methods=["POST"])]
