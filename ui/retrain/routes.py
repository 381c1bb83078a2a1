"""What a page asks for while its visitor's agent is trained: to be counted as present."""

import asyncio
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ui.retrain.jobs import Jobs

PULSE_SECONDS = 0.3
"""So long an answer takes; then a page asks again. Browsers slow the clocks of hidden pages, not their questions."""


async def here(jobs: Jobs, request: Request) -> JSONResponse:
    """POST /arcade/training/here?id=...: the page of that training is there, which goes on as long as it is."""
    run = jobs.get(request.query_params.get("id"))
    if run is None or run.ended is not None:
        return JSONResponse({"over": True})
    run.hear()
    await asyncio.sleep(PULSE_SECONDS)
    run.hear()  # whatever held this server up is not held against the page
    return JSONResponse({"over": False})


def routes(jobs: Jobs) -> list[Route]:
    """What is asked for while these trainings are under way."""
    return [Route("/arcade/training/here", partial(here, jobs), methods=["POST"])]
