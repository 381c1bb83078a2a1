"""What a page asks for while its visitor plays: the game, where the keys go, and how the zoo's agent does meanwhile."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import zoo
from a3c_core.checkpoint import CheckpointError
from a3c_core.recipe import Recipe
from training.recipes import RECIPES, recipes_of
from ui.play.controls import AGENT, CONTROLS, WORDS
from ui.play.sessions import Sessions, Stream, Taken
from ui.play.taken import TakenGame
from ui.streaming.chunks import MOST_STEPS, EpisodeSpec
from ui.streaming.routes import FAILURES, LAST_SEED, Refused, answer_to, number, refusal, spec_of
from ui.streaming.stream import Broadcasts, Full
from ui.visitors import address_of
from zoo.hub import HubError

PLAYABLE: dict[str, Recipe] = {name: RECIPES[name] for env in CONTROLS for name in recipes_of(env)[:1]}
"""The games that people can play, by the names of their recipes."""
SPEEDS = (100, 50, 25)
"""Percent of a game's own speed."""
RIVAL_SECONDS = 10.0
"""So long a visitor can do without news of the agent's game: it goes after those that are watched."""
MOST_MESSAGES = 10**6
"""More than a page sends during a game."""


class Match(NamedTuple):
    """A game that a visitor may play."""

    play: str
    seed: int
    speed: int

    @property
    def recipe(self) -> Recipe:
        """Which game it is."""
        return PLAYABLE[self.play]


def match_of(asked: Mapping[str, str]) -> Match:
    """The match that an address' query names. Raises Refused, with a sentence."""
    play = asked.get("play", "")
    if play not in PLAYABLE:
        raise Refused(f"Choose a game to play: {' or '.join(PLAYABLE)}.")
    return Match(play, number(asked, "seed", 0, LAST_SEED), speed_of(asked, PLAYABLE[play].env))


def speed_of(asked: Mapping[str, str], env: str) -> int:
    """Percent of a game's own speed that a query names, or as it is usually played by hand. Raises Refused."""
    speed = number(asked, "speed", CONTROLS[env].percent, 100)
    if speed not in SPEEDS:
        raise Refused(f"The speed is one of {', '.join(map(str, SPEEDS))} percent.")
    return speed


def rival_of(match: Match) -> EpisodeSpec | None:
    """The game of the same seed by the zoo's agent for it, if the zoo has one."""
    names = (entry.name for entry in zoo.entries().values() if entry.recipe.env == match.recipe.env)
    name = next(names, None)
    return spec_of({"agent": name, "seed": str(match.seed)}) if name else None


async def live(sessions: Sessions, request: Request) -> Response:
    """POST /arcade/live?play=breakout&seed=7&speed=100: a game to play, as a stream; closing it ends the game."""
    try:
        match = match_of(request.query_params)
        return Stream(sessions, sessions.open(match.recipe, match.seed, match.speed, address_of(request)))
    except Refused as error:
        return refusal(400, str(error))
    except Taken as error:
        return refusal(503, str(error))


async def take_over(sessions: Sessions, broadcasts: Broadcasts, request: Request) -> Response:
    """POST /arcade/takeover?agent=breakout&seed=7&from=412: the controls of an agent's game from that step on, as a
    stream; closing it ends the game."""
    asked = request.query_params
    try:
        spec, step = spec_of(asked), number(asked, "from", 0, MOST_STEPS - 1)
        agent = await broadcasts.agent(spec)
        if agent.recipe.env not in CONTROLS:
            raise Refused(f"{agent.recipe.env} cannot be played by hand. Take over one of the other games.")
        speed = speed_of(asked, agent.recipe.env)
        make = partial(TakenGame, spec, agent, step)
        return Stream(sessions, sessions.open(agent.recipe, spec.seed, speed, address_of(request), make))
    except Taken as error:
        return refusal(503, str(error))
    except FAILURES as failure:
        return refusal(*answer_to(failure, asked))


async def keys(sessions: Sessions, request: Request) -> Response:
    """POST /arcade/live/keys?id=...&n=3&held=left.fire: what is held in a live game, or `agent` where the controls are
    handed back; without `held`, a pause."""
    asked = request.query_params
    name = asked.get("id", "")
    game = sessions.get(name)
    if game is None:
        return Response(status_code=204) if sessions.ended(name) else refusal(404, "There is no such game.")
    try:
        game.hear(number(asked, "n", 0, MOST_MESSAGES), held_of(asked.get("held")))
    except Refused as error:
        return refusal(400, str(error))
    return Response(status_code=204)


def held_of(text: str | None) -> list[str] | None:
    """Which keys are held, the latest last. Raises Refused, with a sentence."""
    if text == AGENT:
        return [AGENT]
    words = text.split(".") if text else []
    if len(words) > len(WORDS) or not set(words) <= set(WORDS):
        raise Refused(f"Held must be some of {', '.join(WORDS)}.")
    return None if text is None else words


async def rival(broadcasts: Broadcasts, request: Request) -> Response:
    """GET /arcade/rival?play=breakout&seed=7, or ?agent=breakout&seed=7: the agent's return so far; each question lets
    it play on a bit."""
    asked = request.query_params
    try:
        spec = spec_of(asked) if "agent" in asked else rival_of(match_of(asked))
        if spec is None:
            return refusal(404, "The zoo has no agent for this game yet.")
        game = await broadcasts.begun(spec, address_of(request))
    except Refused as error:
        return refusal(400, str(error))
    except (Full, HubError, CheckpointError, OSError):
        return refusal(503, "The agent cannot play at the moment.")
    if game.error:
        return refusal(500, "The agent's game ended because of an error.")
    over = game.over  # before its return, which may still grow
    game.part(len(game.chunks), ahead=RIVAL_SECONDS)
    return JSONResponse({"agent": spec.agent, "return": game.total, "over": over})


def routes(sessions: Sessions, broadcasts: Broadcasts) -> list[Route]:
    """What is asked for while visitors play these games."""
    return [
        Route("/arcade/live", partial(live, sessions), methods=["POST"]),
        Route("/arcade/takeover", partial(take_over, sessions, broadcasts), methods=["POST"]),
        Route("/arcade/live/keys", partial(keys, sessions), methods=["POST"]),
        Route("/arcade/rival", partial(rival, broadcasts)),
    ]
