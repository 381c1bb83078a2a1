"""What the app refuses before anything else sees it: names that are not its own, posts by other pages, large bodies,
and what gradio offers that this page does not use.

Without the first, any page on the web could reach an arcade inside its visitor's network, by a name of its own that
suddenly resolves to this machine (DNS rebinding). Without the second, it could publish with its visitor's account.
"""

import os
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.gradio_internals import API, UNNEEDED
from ui.visitors import ON_A_SPACE

HOSTS = "A3C_HOSTS"
"""The environment variable with the names that this arcade is reached by, separated by commas; pages of these names may
also use it from elsewhere. `*` is any name."""
PRIVATE = (".localhost", ".local", ".lan", ".internal", ".home.arpa", ".localdomain", ".intranet", ".gradio.live")
"""How names end that nobody can have lead to another's machine: public DNS has none of them, or one owner's."""
SAFE = ("GET", "HEAD", "OPTIONS")
MOST_BYTES = 2**16
"""Of what is posted; the largest that the page itself does are some settings."""
MCP = f"{API}/mcp"


class Guard:
    """ASGI middleware that refuses in a sentence."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.named = listed(os.environ.get(HOSTS, ""))
        self.own = self.named | own_names()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self.refusal(headers, scope["method"])
        if refused is None and scope["method"] not in SAFE:
            body = await body_of(receive)
            if body is None:
                refused = told(413, f"That is too much at once: {MOST_BYTES:,} bytes are taken at most.")
            else:
                receive = replayed(body, receive)
        if scope["path"].startswith(MCP) and scope["client"]:  # it asks this server on its caller's behalf
            kept = [each for each in scope["headers"] if each[0] != b"x-forwarded-for"]
            scope = scope | {"headers": [*kept, (b"x-forwarded-for", scope["client"][0].encode())]}
        await (refused or self.app)(scope, receive, send)

    def refusal(self, headers: Headers, method: str) -> Response | None:
        """What is answered to who asks by another's name, or from another's page; None where all is well."""
        host = name_of(f"//{headers.get('host', '')}")
        if not is_own(host, self.own):
            said = f"This arcade does not go by this name. Its host can allow it: {HOSTS}={printed(host)}."
            return PlainTextResponse(said, status_code=421)
        if method not in SAFE and is_foreign(headers, self.named):
            return told(403, f"Another page may not do this. The arcade's host can allow its name in {HOSTS}.")
        return None


def own_names() -> frozenset[str]:
    """The names that this arcade is reached by, as its machine and gradio's settings tell."""
    root = name_of(os.environ.get("GRADIO_ROOT_PATH", ""))
    return listed(",".join([os.environ.get("GRADIO_SERVER_NAME", ""), root, socket.gethostname()]))


def listed(text: str) -> frozenset[str]:
    """Names that are separated by commas."""
    return frozenset(name.strip().lower() for name in text.split(",") if name.strip())


def name_of(address: str) -> str:
    """The name of a machine in an address, without its port; empty where there is none."""
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return "?"


def is_own(name: str, own: Iterable[str]) -> bool:
    """Whether a name leads nobody to another's arcade. A number cannot change what it leads to, and neither can names
    that no public DNS has; the proxy before a Space hands on none but the Space's."""
    if ON_A_SPACE or "*" in own or name in own or "." not in name or name.endswith(PRIVATE):
        return True
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def is_foreign(headers: Headers, named: Iterable[str]) -> bool:
    """Whether a request comes from another's page: as browsers tell, which let no page say otherwise. Programs tell
    neither. (After Go's net/http.CrossOriginProtection.)"""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin and name_of(origin) in named:
        return False
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and place_of(origin) != place_of(f"//{headers.get('host', '')}")


def place_of(address: str) -> str:
    """Name and port in an address; the usual ports are none."""
    return urlsplit(address).netloc.lower().removesuffix(":80").removesuffix(":443")


async def body_of(receive: Receive) -> bytes | None:
    """All that is posted; None where it is more than MOST_BYTES. Who goes before the end has posted nothing."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            return None
        if not message.get("more_body"):
            return body


def replayed(body: bytes, receive: Receive) -> Receive:
    """Gives a body that has been read, and then what comes after it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def told(status: int, sentence: str) -> Response:
    """A refusal, as this page's scripts and as gradio's read it."""
    return JSONResponse({"error": sentence, "detail": sentence}, status_code=status)


def printed(name: str) -> str:
    """A name that somebody sent, in a sentence."""
    return "".join(letter for letter in name if letter.isalnum() or letter in "-.")[:100]


def closed(request: Request) -> Response:
    """What is not offered here."""
    return told(404, "This arcade takes no files.")


ROUTES = [Route(f"{API}/{name}{end}", closed, methods=["GET", "POST"]) for name in UNNEEDED for end in ("", "/")]
"""Before gradio's own."""
