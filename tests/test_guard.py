"""What the app refuses: other names, other pages, large bodies, files; and how visitors are told apart."""

import os
import runpy
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import pytest
import uvicorn
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

import ui.guard
from tests.processes import wait_until
from tests.serving import ROOT, App
from ui.admission import PerVisitor, TooMany
from ui.gradio_internals import UNNEEDED
from ui.guard import HOSTS, MCP, MOST_BYTES, Guard, is_foreign, is_own
from ui.play.sessions import PER_ADDRESS
from ui.visitors import address_of, counted

OWN_NAMES = {
    "this machine": ("127.0.0.1", "::1", "localhost", "arcade.localhost"),
    "a machine of the local network": ("192.168.1.5", "10.0.0.7", "fd00::7", "pi", "pi.local", "pi.lan"),
    "a number of the internet": ("203.0.113.9", "2001:db8::9"),
    "what the host allows": ("arcade.example.org",),
    "nothing": ("",),
}


@pytest.mark.parametrize("names", OWN_NAMES.values(), ids=OWN_NAMES)
def test_an_arcade_answers_to_each_of_its_names(names):
    assert [name for name in names if not is_own(name, {"arcade.example.org"})] == []


@pytest.mark.parametrize("name", ["evil.com", "arcade.example.org.evil.com", "127.0.0.1.evil.com", "local.evil"])
def test_a_name_that_anybody_can_lead_here_is_not_its_own(name):
    assert not is_own(name, {"arcade.example.org"})
    assert is_own(name, {"*"})


def test_a_space_has_the_names_that_its_proxy_hands_on(monkeypatch):
    monkeypatch.setattr(ui.guard, "ON_A_SPACE", True)
    assert is_own("user-a3c-arcade.hf.space", ())


HERE = {"host": "192.168.1.5:7860"}
OWN_PAGES = {
    "a program": {},
    "this page": {"origin": "https://arcade.example.org", "sec-fetch-site": "same-origin"},
    "an address typed by hand": {"sec-fetch-site": "none"},
    "this page, without encryption": {"origin": "http://192.168.1.5:7860"},
    "a page that the host allows": {"origin": "https://friend.example.org", "sec-fetch-site": "cross-site"},
}
FOREIGN_PAGES = {
    "another site": {"origin": "https://evil.com", "sec-fetch-site": "cross-site"},
    "a neighbour": {"origin": "https://evil.hf.space", "sec-fetch-site": "same-site"},
    "another server of this machine": {"origin": "http://192.168.1.5:3000"},
    "another site, without encryption": {"origin": "http://evil.com"},
    "a page without a place": {"origin": "null"},
    "a form": {"sec-fetch-site": "cross-site"},
}


@pytest.mark.parametrize("told", OWN_PAGES.values(), ids=OWN_PAGES)
def test_its_own_page_and_programs_may_post(told):
    assert not is_foreign(Headers(HERE | told), {"friend.example.org"})


@pytest.mark.parametrize("told", FOREIGN_PAGES.values(), ids=FOREIGN_PAGES)
def test_anothers_page_may_not(told):
    assert is_foreign(Headers(HERE | told), {"friend.example.org"})


def test_the_app_takes_no_post_from_anothers_page(app: App):
    """Neither gradio's, such as the one that publishes, nor its own."""
    for path in ("gradio_api/queue/join", "gradio_api/run/predict", "gradio_api/call/evaluate", "arcade/live"):
        answer = httpx.post(f"{app.url}{path}", json={"data": []}, headers={"origin": "https://evil.com"})
        assert (answer.status_code, answer.json()["error"][:17]) == (403, "Another page may "), path
    assert httpx.get(app.url, headers={"origin": "https://evil.com"}).status_code == 200  # a link


def test_the_app_answers_to_no_name_of_anothers(app: App):
    answer = httpx.get(app.url, headers={"host": "evil.example.com"})
    assert answer.status_code == 421
    assert answer.text.endswith(f"{HOSTS}=evil.example.com.")
    assert httpx.get(f"{app.url}healthz", headers={"host": "pc.local:7860"}).status_code == 200


@pytest.mark.parametrize("name", UNNEEDED)
def test_the_app_takes_no_files(app: App, name):
    answer = httpx.post(f"{app.url}gradio_api/{name}", files={"files": b"mine"})
    assert answer.status_code == 404
    assert answer.json()["error"] == "This arcade takes no files."


def test_the_app_takes_no_large_body(app: App):
    """Whether or not its length is told before."""
    body = b'{"data": ["' + b"x" * MOST_BYTES + b'"]}'
    for content in (body, iter([body])):
        answer = httpx.post(f"{app.url}gradio_api/call/evaluate", content=content)
        assert answer.status_code == 413
        assert "65,536 bytes" in answer.json()["error"]


def seen(request: Request) -> JSONResponse:
    """What reaches a route behind the guard."""
    return JSONResponse(dict(request.headers))


def test_what_is_asked_on_a_callers_behalf_counts_as_the_callers():
    """Gradio's MCP server passes a caller's headers on to this server, which is then asked from this machine."""
    app = Starlette(routes=[Route(f"{MCP}/", seen)], middleware=[Middleware(Guard)])
    caller = TestClient(app, client=("203.0.113.9", 1234))
    assert caller.get(f"{MCP}/", headers={"x-forwarded-for": "127.0.0.1"}).json()["x-forwarded-for"] == "203.0.113.9"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("x" * 999, "x" * 64),
    ],
)
def test_an_address_counts_as_its_network(host, address):
    assert counted(host) == address
    assert address_of(SimpleNamespace(client=SimpleNamespace(host=host))) == address
    assert address_of(SimpleNamespace(client=None)) is address_of(None) is None


def test_an_address_that_a_visitor_forges_counts_for_nothing(app: App):
    """What the proxy adds stands at the end."""
    with ExitStack() as stack:
        answers = [
            stack.enter_context(
                httpx.stream(
                    "POST",
                    f"{app.url}arcade/live?play=cartpole",
                    headers={"x-forwarded-for": f"192.0.2.{forged}, 203.0.113.9"},
                    timeout=60,
                )
            )
            for forged in range(PER_ADDRESS + 1)
        ]
        assert [answer.status_code for answer in answers] == [200] * PER_ADDRESS + [503]
    assert wait_until(lambda: httpx.get(f"{app.url}healthz", timeout=30).json()["players"] == 0, 10)


def test_behind_a_spaces_proxies_visitors_are_told_apart(monkeypatch):
    monkeypatch.setattr(os, "environ", {"SPACE_ID": "user/a3c-arcade"})
    runpy.run_path(str(ROOT / "app.py"), run_name="worker")
    told = {}

    async def app(scope, receive, send):
        told["address"] = address_of(Request(scope))

    behind = ProxyHeadersMiddleware(app, uvicorn.Config(app).forwarded_allow_ips)
    forwarded = [(b"x-forwarded-for", b"192.0.2.66, 203.0.113.9, 10.16.0.2")]
    scope = {"type": "http", "client": ("10.16.3.80", 1234), "headers": forwarded}
    with start_blocking_portal() as portal:  # the browser's tests have a loop in this thread
        portal.call(behind, scope, None, None)
    assert told["address"] == "203.0.113.9"


def test_a_visitors_share_is_no_other_visitors():
    share = PerVisitor(1, "games are being made")
    with ExitStack() as others:
        for address in ("a", "b", None, None):
            others.enter_context(share.one(address))
        with pytest.raises(TooMany, match=r"1 games are being made for your address already\. Please wait"):
            others.enter_context(share.one("a"))
    with share.one("a"):
        pass
