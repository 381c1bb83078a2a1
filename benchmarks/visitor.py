"""A visitor without a browser."""

from collections.abc import Iterator
from typing import Any

import httpx


def watched(visitor: httpx.Client, game: dict[str, Any]) -> Iterator[bytes]:
    """The chunks of a game to its end, fetched one after the other as the player does."""
    n = 0
    while (answer := visitor.get("arcade/chunk", params=game | {"n": n})).status_code != 204:
        answer.raise_for_status()
        if answer.status_code == 200:  # 202 is to be asked again
            n += 1
            yield answer.content
