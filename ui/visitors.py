"""Where visitors come from, as far as it can be known.

Behind proxies it is what they tell in X-Forwarded-For. The server, uvicorn, reads that header from its end, and only
believes proxies that FORWARDED_ALLOW_IPS names.
"""

import os
from ipaddress import IPv6Address, ip_address, ip_network

import gradio as gr
from starlette.requests import Request

ON_A_SPACE = "SPACE_ID" in os.environ
MOST_LETTERS = 64
"""Of an address that is none: a proxy hands on whatever it was told."""
NETWORK_BITS = 64
"""Of an IPv6 address that are one household's, which may choose the others as it likes."""


def address_of(request: gr.Request | Request | None) -> str | None:
    """The address that a visitor's share of everything is counted by; None for this machine itself."""
    client = request.client if request else None
    return counted(client.host) if client else None


def counted(host: str) -> str | None:
    """What an address is counted as: of IPv6 the network; None where it is this machine's own."""
    try:
        address = ip_address(host)
    except ValueError:
        return host[:MOST_LETTERS]
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return None
    return str(address if address.version == 4 else ip_network((address.packed, NETWORK_BITS), strict=False))
