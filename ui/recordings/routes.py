"""What the player asks for of recorded games: which there are, and their files."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ui.modules import FOREVER
from ui.recordings.shelf import content, recordings

PLACE = "arcade/recordings/"
"""Of the files, and by itself of what tells which there are."""


async def index(_: Request) -> Response:
    """GET /arcade/recordings/: which games there are."""
    games = [each.game._asdict() for each in recordings()]
    return JSONResponse(games, headers={"Cache-Control": "no-cache"})


async def file(request: Request) -> Response:
    """GET /arcade/recordings/NAME: some chunks of a game, packed (see ui/recordings/record.py)."""
    data = content(request.path_params["name"])
    if data is None:
        return JSONResponse({"error": "This recording is not here any more."}, status_code=404)
    return Response(data, media_type="application/octet-stream", headers={"Cache-Control": FOREVER})


ROUTES = [Route(f"/{PLACE}", index), Route(f"/{PLACE}{{name}}", file)]
