"""Pages that are opened without a browser: what a real Chromium asks for once is asked for again by many at once.

aiohttp asks, since httpx takes as much of the processor for a request as the server does.
"""

import asyncio
import re
import secrets
import time
from contextlib import AsyncExitStack, closing
from typing import NamedTuple

import aiohttp
from aiohttp import TCPConnector
from playwright.sync_api import Request

from tests.browsing import chromium
from tests.serving import App

CONNECTIONS = 6
"""That a browser has to one server."""
SESSION = re.compile(r'"session_hash":\s*"(\w+)"')
"""How a page of gradio names itself in what it posts."""
STREAM = "text/event-stream"
"""What never ends while the page is there."""


class Asked(NamedTuple):
    """A request of a page, below the app's address."""

    method: str
    path: str
    body: str | None = None


def asked_by_chromium(app: App) -> list[Asked]:
    """What a browser with nothing in its cache asks for until the first picture, the page itself first."""
    asked: list[Asked] = []

    def note(request: Request) -> None:
        if request.url.startswith(app.url):
            asked.append(Asked(request.method, request.url.removeprefix(app.url), request.post_data))

    with chromium() as browser, closing(browser.new_page()) as page:
        page.on("request", note)
        page.goto(app.url)
        page.locator(".player canvas[data-step]").first.wait_for()
    return asked


def by_another(asked: list[Asked]) -> list[Asked]:
    """The same requests from a page that names itself otherwise."""
    names = {name for each in asked for name in SESSION.findall(each.body or "")}
    new = secrets.token_hex(6)

    def renamed(text: str) -> str:
        for name in names:
            text = text.replace(name, new)
        return text

    return [Asked(each.method, renamed(each.path), each.body and renamed(each.body)) for each in asked]


async def opened(url: str, asked: list[Asked], *, visitor: int, delay: float) -> float | None:
    """Opens a page after some seconds; returns how long all that its first picture needs takes to come, None where any
    of it is refused or lost."""
    await asyncio.sleep(delay)
    begun, own = time.monotonic(), by_another(asked)
    headers = {"x-forwarded-for": f"10.0.{visitor // 250}.{1 + visitor % 250}", "accept-encoding": "gzip"}
    free = asyncio.Semaphore(CONNECTIONS)
    async with (
        aiohttp.ClientSession(url, headers=headers, connector=TCPConnector(limit=0), auto_decompress=False) as client,
        AsyncExitStack() as streams,
    ):

        async def came(one: Asked) -> bool:
            typed = {"content-type": "application/json"} if one.body else {}
            async with free:
                try:
                    answer = await streams.enter_async_context(
                        client.request(one.method, one.path, data=one.body, headers=typed)
                    )
                    if answer.content_type != STREAM:
                        await answer.read()
                except (aiohttp.ClientError, TimeoutError):
                    return False
                return answer.ok

        whole = [await came(own[0]), *await asyncio.gather(*map(came, own[1:]))]
        return time.monotonic() - begun if all(whole) else None


async def all_opened(url: str, asked: list[Asked], *, pages: int, seconds: float) -> list[float | None]:
    """So many visitors who open a page each, evenly within some seconds; how long each waits."""
    opening = (opened(url, asked, visitor=i, delay=seconds * i / pages) for i in range(pages))
    return await asyncio.gather(*opening)
