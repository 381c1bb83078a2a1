"""Where visitors come from, as far as it can be known."""

from ipaddress import ip_address

import gradio as gr
from starlette.requests import Request

MOST_LETTERS = 64
"""Of an address that is kept: a forwarded one is whatever somebody wrote."""


def address_of(request: gr.Request | Request | None) -> str | None:
    """The address of a visitor, behind a proxy as the proxy tells it; None for this machine itself."""
    if request is None:
        return None
    forwarded = (request.headers.get("x-forwarded-for") or "").split(",")[0].strip()
    if forwarded:
        return forwarded[:MOST_LETTERS]
    host = request.client.host if request.client else None
    return None if host is None or _is_here(host) else host[:MOST_LETTERS]


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
