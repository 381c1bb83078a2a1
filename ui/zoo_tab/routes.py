"""What the Zoo tab asks for besides the page: a still picture of an agent's game, and the files of its checkpoint."""

import threading
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

import zoo
from a3c_core.checkpoint import MODEL, RECIPE, CheckpointError
from training.log import LOG
from ui.episodes import scratch
from ui.streaming.routes import Refused, no_such_agent, refusal
from ui.zoo_tab.thumbnails import thumbnail_of
from zoo.hub import HubError

FILES = (MODEL, RECIPE, LOG)
"""Of a checkpoint, that can be downloaded one by one or together."""
_packing = threading.Lock()


def entry_of(asked: Mapping[str, str]) -> zoo.ZooEntry:
    """The agent of the zoo that a query names. Raises Refused, with a sentence."""
    entry = zoo.entries().get(asked.get("agent", ""))
    if entry is None:
        raise no_such_agent()
    return entry


def thumbnail(request: Request) -> Response:
    """GET /arcade/thumbnail?agent=pong: a moment of a game as PNG."""
    try:
        picture = thumbnail_of(entry_of(request.query_params))
    except Refused as error:
        return refusal(400, str(error))
    except (CheckpointError, HubError, OSError):
        return refusal(503, "There is no picture of this agent now.")
    return Response(picture, media_type="image/png", headers={"Cache-Control": "max-age=600"})


def checkpoint(request: Request) -> Response:
    """GET /arcade/checkpoint?agent=pong: its files as zip; with file=recipe.json that one alone."""
    try:
        entry, file = entry_of(request.query_params), request.query_params.get("file", "")
    except Refused as error:
        return refusal(400, str(error))
    if file and file not in FILES:
        return refusal(400, f"The files of an agent are {', '.join(FILES)}.")
    found = {name: entry.directory / name for name in FILES if (entry.directory / name).is_file()}
    if MODEL not in found or (file and file not in found):
        return refusal(404, f"This file of {entry.name} is not here.")
    if file:
        return FileResponse(found[file], filename=f"{entry.name}-{file}")
    try:
        return FileResponse(packed(entry, found), media_type="application/zip", filename=f"{entry.name}-a3c.zip")
    except OSError:
        return refusal(503, "The files could not be packed. Please try later.")


def packed(entry: zoo.ZooEntry, files: Mapping[str, Path]) -> Path:
    """An agent's files as a zip file, which is written when it is first asked for. Raises OSError."""
    path = scratch() / f"{entry.name}-{entry.sha256[MODEL][:16]}.zip"
    with _packing:
        if not path.exists():
            part = path.with_suffix(".part")
            with ZipFile(part, "w") as archive:  # weights hardly get smaller
                for name, file in files.items():
                    archive.write(file, name)
            part.rename(path)
    return path


ROUTES = [Route("/arcade/thumbnail", thumbnail), Route("/arcade/checkpoint", checkpoint)]
