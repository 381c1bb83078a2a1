"""The page itself comes compressed: it holds the style sheet and the config. Gradio compresses files alone."""

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send


class CompressPage:
    """ASGI middleware: answers a request for the page by gzip where the browser takes it, and any other as ever."""

    def __init__(self, app: ASGIApp) -> None:
        self._plain, self._compressed = app, GZipMiddleware(app, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._compressed if scope["type"] == "http" and scope["path"] == "/" else self._plain
        await app(scope, receive, send)
