"""A page whose path ends with a slash, as its relative addresses expect: behind a proxy it may have been asked for as
/arcade, and nothing but the browser knows that."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.gradio_internals import HEAD

SCRIPT = (
    b'<script>if (!location.pathname.endsWith("/"))'
    b' history.replaceState(null, "", location.pathname + "/" + location.search + location.hash);</script>'
)


class EndWithSlash:
    """ASGI middleware: before the page's addresses count from anywhere, its browser adds the slash that is missing."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/":
            await self.app(scope, receive, send)
            return
        page = False

        async def inserted(message: Message) -> None:
            nonlocal page
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                page = headers.get("content-type", "").startswith("text/html") and "content-length" in headers
                if page:
                    headers["content-length"] = str(int(headers["content-length"]) + len(SCRIPT))
            elif page:
                message = message | {"body": message["body"].replace(HEAD, HEAD + SCRIPT, 1)}
            await send(message)

        await self.app(scope, receive, inserted)
