"""The page, and files that stay the same while the app runs, are compressed once, and the files answered from memory.

A page asks for some eighty files. Gradio would read each in a thread of its own and compress it anew. The page itself,
which holds the style sheet and the config, it would not compress at all.
"""

import gzip
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import brotli
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.gradio_internals import FILES

FIXED = (*FILES, "/arcade/js/", "/arcade/recordings/")
"""Where the paths of such files begin; one that ends with a slash is a list, which may change."""
CONDITIONS = ("range", "if-none-match", "if-modified-since")
"""Headers of requests that may want less than the whole file."""
MOST_BYTES = 32 * 2**20
"""Of all files that are kept; others are answered as ever."""
COMPRESSIBLE = ("text/", "application/json", "application/javascript", "image/svg+xml")
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "br": partial(brotli.compress, quality=9),
    "gzip": partial(gzip.compress, mtime=0),
}
"""The best first."""


class Answer(NamedTuple):
    """A whole answer, not compressed."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class CompressOnce:
    """ASGI middleware, outside of which nothing compresses these answers again."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._kept: dict[str, Answer] = {}
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        path = scope.get("path", "")
        fixed = path.startswith(FIXED) and not path.endswith("/")
        whole = (fixed or path == "/") and not any(each in headers for each in CONDITIONS)
        if not whole or scope.get("method") != "GET":
            await self.app(scope, receive, send)
            return
        answer = self._kept.get(path) or await answered(self.app, scope, receive)
        if fixed and answer.status == 200:
            self._keep(path, answer)
        await respond(answer, headers.get("accept-encoding", ""), send)

    def _keep(self, path: str, answer: Answer) -> None:
        if path not in self._kept and self._size + len(answer.body) <= MOST_BYTES:
            self._size += len(answer.body)
            self._kept[path] = answer


async def answered(app: ASGIApp, scope: Scope, receive: Receive) -> Answer:
    """All that the app sends."""
    sent: list[Message] = []

    async def note(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, note)
    start, *parts = sent
    return Answer(start["status"], list(start["headers"]), b"".join(part.get("body", b"") for part in parts))


async def respond(answer: Answer, accepted: str, send: Send) -> None:
    """Sends an answer in the best encoding that the browser takes."""
    headers, body = MutableHeaders(raw=list(answer.headers)), answer.body
    if headers.get("content-type", "").startswith(COMPRESSIBLE):
        headers.add_vary_header("Accept-Encoding")
        if encoding := next((each for each in ENCODINGS if each in accepted), None):
            body = compressed(body, encoding)
            headers["content-encoding"] = encoding
            headers["content-length"] = str(len(body))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers.raw})
    await send({"type": "http.response.body", "body": body})


@lru_cache(maxsize=256)
def compressed(body: bytes, encoding: str) -> bytes:
    """The page is the same for everybody who reaches the app under the same name, so it is compressed once, too.

    There is room for a page's files in each encoding. More would let strangers fill the memory with other pages.
    """
    return ENCODINGS[encoding](body)
