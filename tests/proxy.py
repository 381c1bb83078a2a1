"""A proxy that serves an app below a path of its own, with and without a slash at its end, as many do."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.processes import wait_until

METHODS = ["GET", "HEAD", "POST"]
OF_A_CONNECTION = {"connection", "transfer-encoding"}


@contextmanager
def proxied(url: str, path: str) -> Iterator[str]:
    """The address of the path that leads to the app at `url`."""
    client = httpx.AsyncClient(base_url=url, timeout=120)

    async def hand_on(request: Request) -> StreamingResponse:
        target = httpx.URL(path=f"/{request.path_params.get('path', '')}", query=request.url.query.encode())
        asked = client.build_request(request.method, target, headers=request.headers.raw, content=await request.body())
        answer = await client.send(asked, stream=True)
        kept = {name: text for name, text in answer.headers.items() if name not in OF_A_CONNECTION}
        return StreamingResponse(raw(answer), answer.status_code, kept, background=BackgroundTask(answer.aclose))

    routes = [Route(place, hand_on, methods=METHODS) for place in (path, path + "/{path:path}")]
    app = Starlette(routes=routes)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert wait_until(lambda: server.started, 30)
    host, port = server.servers[0].sockets[0].getsockname()
    yield f"http://{host}:{port}{path}"
    server.should_exit = True
    thread.join(10)


async def raw(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Its bytes as they came."""
    async for part in answer.aiter_raw():
        yield part
