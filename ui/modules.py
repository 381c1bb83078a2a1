"""The page's scripts: ES modules below an address that names their content, so a browser asks for each but once."""

import hashlib
import json
import re
from functools import cache
from os.path import normpath
from pathlib import Path, PurePosixPath

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ui.gradio_internals import ROOT, naming_events

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import .* from "(.*)";$', re.MULTILINE)
FOREVER = "public, max-age=31536000, immutable"


@cache
def modules() -> dict[str, bytes]:
    """All scripts by their paths below this package, which their imports of each other follow."""
    return {path.relative_to(HERE).as_posix(): path.read_bytes() for path in sorted(HERE.rglob("*.js"))}


@cache
def version() -> str:
    """What changes when any of them does."""
    whole = hashlib.sha256()
    for name, module in modules().items():
        whole.update(f"{name}\0{len(module)}\0".encode() + module)
    return whole.hexdigest()[:12]


def mounted(module: str, *events: str) -> str:
    """The `js_on_load` of a component whose script is that module's `mount`, and which has these events of its own."""
    return (
        f"{imported(module)}.then(\n"
        f"  ({{ mount }}) => mount({{ element, props, watch, trigger }}),{naming_events(events)}\n"
        '  () => element.append("A part of the page could not be fetched. Reload it in a moment."),\n);'
    )


def calling(module: str, function: str, *values: object) -> str:
    """The `js` of an event that calls a function of that module with `values`, and then with the event's inputs."""
    given = "".join(f"{json.dumps(value)}, " for value in values)
    return f"(...inputs) => {{ {imported(module)}.then((module) => module.{function}({given}...inputs)); return []; }}"


def imported(module: str) -> str:
    """The expression that imports a module, relative to wherever the app is."""
    return f"import(`${{{ROOT}}}/arcade/js/{version()}/{module}`)"


@cache
def needed(*wanted: str) -> tuple[str, ...]:
    """Some modules and all that they import. A browser that is told them fetches all at once, not each import after
    the module that names it."""
    found: dict[str, None] = {}
    left = list(wanted)
    while left:
        if (name := left.pop()) not in found:
            found[name] = None
            imports = IMPORT.findall(modules()[name].decode())
            left += [normpath(PurePosixPath(name).parent / path) for path in imports]
    return tuple(sorted(found))


def scripts(*wanted: str) -> list[str]:
    """The addresses of modules and all that they import, relative to the page."""
    return [f"arcade/js/{version()}/{name}" for name in needed(*wanted)]


def script(request: Request) -> Response:
    """GET /arcade/js/VERSION/watch/player.js: a module, for ever; another version's is not here any more."""
    module = modules().get(request.path_params["name"])
    if module is None or request.path_params["version"] != version():
        return PlainTextResponse("This script belongs to another version of the page. Reload it.", status_code=404)
    return Response(module, media_type="text/javascript", headers={"Cache-Control": FOREVER})


ROUTES = [Route("/arcade/js/{version}/{name:path}", script)]
