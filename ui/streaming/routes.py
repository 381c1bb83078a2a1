"""What the player asks for besides the page: chunks of games, what their agents look at, and files of them."""

import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, get_args

from anyio import to_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError
from a3c_core.envs import FIRST_TRAINING_SEED, Protocol, is_atari
from ui.admission import Busy, TooMany
from ui.streaming.agent_catalog import watchable
from ui.streaming.chunks import MOST_CHUNKS, MOST_STEPS, Chunk, EpisodeSpec, header_of
from ui.streaming.files import GIF_CHUNKS, Files, Stretch, file_name
from ui.streaming.nudges import nudges_of
from ui.streaming.saliency import Looks
from ui.streaming.stream import CAN_WAIT_SECONDS, Broadcast, Broadcasts, BrokenOff, Full
from ui.streaming.takeovers import takeovers_of
from ui.visitors import address_of
from zoo.hub import HubError

PATIENCE_SECONDS = 5.0
"""A chunk that has not been played by then is to be asked for again."""
WAITED_FOR = "Many videos are being made right now. Please try again in a minute."
PRESENCE_SECONDS = 1.0
"""How often it is looked whether who waits for a chunk is still there."""
MOST_AHEAD = 1000
MOST_LOOKS = 60
LAST_SEED = FIRST_TRAINING_SEED - 1


class Refused(ValueError):
    """What was asked for cannot be; the message says what can."""


FAILURES = (Refused, HubError, Busy, Full, CheckpointError, BrokenOff, OSError)
"""What may keep a game from being watched."""


class Answer(NamedTuple):
    """What a visitor gets instead of a game."""

    status: int
    sentence: str


def answer_to(failure: Exception, asked: Mapping[str, str]) -> Answer:
    """What is said of one of FAILURES, to who asked for a game."""
    name = asked.get("agent", "")
    match failure:
        case Refused():
            return Answer(400, str(failure))
        case HubError():
            return Answer(503, f"{name} could not be fetched: {failure}")
        case TooMany():
            return Answer(429, str(failure))
        case Busy():
            return Answer(503, WAITED_FOR)
        case Full():
            return Answer(503, "So many games are being played that yours has to wait for a moment.")
        case BrokenOff():
            return Answer(500, "This game ended because of an error. Choose another seed.")
        case CheckpointError():
            return Answer(500, f"{name} cannot play: its files are damaged.")
        case _:
            return Answer(500, "The game could not be recorded. Please try later.")


def no_such_agent() -> Refused:
    """What is said to who asks for an agent that is not here."""
    return Refused(f"Choose an agent: {' or '.join(zoo.entries())}.")


def spec_of(asked: Mapping[str, str]) -> EpisodeSpec:
    """The spec that an address' query names. Raises Refused, with a sentence."""
    agent = watchable(asked.get("agent", ""))
    if agent is None:
        raise no_such_agent()
    snapshot = number(asked, "snapshot", 100, 100)
    if snapshot not in agent.snapshots:
        raise Refused(f"{agent.name} has these snapshots: {', '.join(map(str, agent.snapshots))}.")
    actions = asked.get("actions", "greedy" if agent.greedy else "sampled")
    if actions not in ("greedy", "sampled"):
        raise Refused("Actions are greedy or sampled.")
    protocol = asked.get("protocol", "classic")
    if protocol not in get_args(Protocol) or (protocol != "classic" and not is_atari(agent.recipe.env)):
        raise Refused("The protocol is classic, or sticky for Atari's games.")
    try:
        nudges = nudges_of(asked.get("nudges", ""), agent.recipe, MOST_STEPS)
        takeovers = takeovers_of(asked.get("takeovers", ""), agent.recipe, MOST_STEPS)
    except ValueError as error:
        raise Refused(str(error)) from None
    seed, greedy = number(asked, "seed", 0, LAST_SEED), actions == "greedy"
    return EpisodeSpec(agent.name, seed, snapshot, greedy, protocol, nudges, agent.commit, takeovers)


def number(asked: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A whole number of a query. Raises Refused, with a sentence."""
    text = asked.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) <= most):
        raise Refused(f"{name.capitalize()} must be a whole number from 0 to {most:,}.")
    return int(text)


async def chunk(broadcasts: Broadcasts, request: Request) -> Response:
    """GET /arcade/chunk?agent=pong&seed=7&n=3: a second of a game; 204 past its end, 202 if not played yet.

    `ahead` are the seconds until the player has nothing more to show: who has the most goes last.
    """
    found = await asked_part(broadcasts, request)
    if isinstance(found, Response):
        return found
    return Response(found.part.chunk, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


async def saliency(broadcasts: Broadcasts, looks: Looks, request: Request) -> Response:
    """GET /arcade/saliency?agent=pong&seed=7&n=3&step=5&most=8: what the agent looked at in a step of a chunk and in
    some of those after it, 8 at most, by their numbers in the game (see `maps_from`)."""
    found = await asked_part(broadcasts, request)
    if isinstance(found, Response):
        return found if found.status_code >= 400 else refusal(503, "This step has not been played yet.")
    sight = found.part.sight
    if sight is None:
        return refusal(400, f"{found.agent.recipe.env} has no saliency maps: it shows numbers, not pictures.")
    try:
        begin = number(request.query_params, "step", 0, sight.shape[0] - 1)
        most = number(request.query_params, "most", 1, MOST_LOOKS)
        with looks.of_one_visitor.one(address_of(request)):
            maps = await run_in_threadpool(looks.maps, found.agent, sight, begin, most)
    except Refused as error:
        return refusal(400, str(error))
    except Busy:
        return refusal(503, "Another saliency map is being made. Please ask again.")
    return JSONResponse({"looks": dict(enumerate(maps, start=found.part.first + begin))})


async def gif(broadcasts: Broadcasts, files: Files, request: Request) -> Response:
    """GET /arcade/gif?agent=pong&seed=7&from=412: 20 seconds as a GIF, from that step or the game's last."""
    try:
        begin = number(request.query_params, "from", MOST_STEPS, MOST_STEPS)
    except Refused as error:
        return refusal(400, str(error))
    try:
        with files.of_one_visitor.one(address_of(request)):
            return await gif_from(begin, broadcasts, files, request)
    except FAILURES as failure:
        return refusal(*answer_to(failure, request.query_params))


async def gif_from(begin: int, broadcasts: Broadcasts, files: Files, request: Request) -> Response:
    """20 seconds of the game that a query names, or a refusal. Raises Busy."""
    broadcast = await opened(broadcasts, request)
    if isinstance(broadcast, Response):
        return broadcast
    parts: deque[Chunk] = deque(maxlen=GIF_CHUNKS)
    for n in range(MOST_CHUNKS):
        while (part := await played(broadcast, n, request, CAN_WAIT_SECONDS)) is None:
            if await request.is_disconnected() or not (broadcast.alive or broadcast.over):
                return refusal(503, "The game was interrupted. Please try again.")
        if isinstance(part, Response):
            break
        parts.append(part)
        if len(parts) == GIF_CHUNKS and parts[1].first > begin:
            break
    if not parts:
        return part
    about = header_of(broadcast.chunks[0].chunk)["game"]
    data = await to_thread.run_sync(files.gif, Stretch(about, parts), limiter=files.threads)
    name = f"{file_name(broadcast.spec)}-step-{parts[0].first}.gif"
    return Response(data, media_type="image/gif", headers={"Content-Disposition": f'attachment; filename="{name}"'})


class Found(NamedTuple):
    """A chunk of a game that is there, and whose game it is."""

    agent: Agent
    part: Chunk


async def asked_part(broadcasts: Broadcasts, request: Request) -> Found | Response:
    """The chunk n of the game that a query names, or what to answer instead: a refusal, 204 or 202."""
    try:
        n = number(request.query_params, "n", 0, MOST_CHUNKS)
        ahead = number(request.query_params, "ahead", 0, MOST_AHEAD)
    except Refused as error:
        return refusal(400, str(error))
    broadcast = await opened(broadcasts, request)
    if isinstance(broadcast, Response):
        return broadcast
    part = await played(broadcast, n, request, ahead)
    if isinstance(part, Chunk):
        return Found(broadcast.agent, part)
    return part or Response(status_code=202)


async def opened(broadcasts: Broadcasts, request: Request) -> Broadcast | Response:
    """The game that a query names, under way or over, or a refusal."""
    try:
        return await broadcasts.begun(spec_of(request.query_params), address_of(request))
    except FAILURES as failure:
        return refusal(*answer_to(failure, request.query_params))


async def played(broadcast: Broadcast, n: int, request: Request, ahead: float = 0.0) -> Chunk | Response | None:
    """A chunk of a game; 204 past its end, a refusal where it broke off, None where it takes too long."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if (part := broadcast.part(n, ahead)) is not None:
            return part
        if broadcast.over and n >= len(broadcast.chunks):
            return Response(status_code=204)
        if broadcast.error:
            return refusal(*answer_to(BrokenOff(), request.query_params))
        if not broadcast.alive or await request.is_disconnected():
            break
        await broadcast.heard(n, PRESENCE_SECONDS)
    return None


async def video(files: Files, request: Request) -> Response:
    """GET /arcade/video?agent=pong&seed=7: a whole game as MP4."""
    try:
        spec = spec_of(request.query_params)
        path = (await to_thread.run_sync(files.video, spec, address_of(request), limiter=files.threads)).video
    except FAILURES as failure:
        return refusal(*answer_to(failure, request.query_params))
    return FileResponse(path, media_type="video/mp4", filename=f"{file_name(spec)}.mp4")


def refusal(status: int, sentence: str) -> Response:
    """An answer that the player shows."""
    return JSONResponse({"error": sentence}, status_code=status)


def routes(broadcasts: Broadcasts, looks: Looks, files: Files) -> list[Route]:
    """What is asked for of these games."""
    return [
        Route("/arcade/chunk", partial(chunk, broadcasts)),
        Route("/arcade/saliency", partial(saliency, broadcasts, looks)),
        Route("/arcade/video", partial(video, files)),
        Route("/arcade/gif", partial(gif, broadcasts, files)),
    ]
