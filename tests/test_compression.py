"""The page and the files that never change are compressed once, and the files answered from memory."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from ui import compression
from ui.compression import CompressOnce

TEXT = b"of which there is more, " * 100


@pytest.fixture
def asked():
    """Paths that the app itself was asked for."""
    return []


@pytest.fixture
def client(asked):
    def answer(request: Request) -> Response:
        asked.append(request.url.path)
        kind = "image/png" if request.url.path.endswith("png") else "text/css"
        return Response(TEXT, media_type=kind, status_code=404 if "missing" in request.url.path else 200)

    outside = [Middleware(GZipMiddleware), Middleware(CompressOnce)]
    return TestClient(Starlette(routes=[Route("/{path:path}", answer)], middleware=outside))


def test_a_file_is_read_once_and_comes_in_the_best_encoding_that_is_taken(client, asked):
    for accepted, encoding in (("gzip, deflate, br", "br"), ("gzip", "gzip"), ("identity", None), ("gzip, br", "br")):
        answer = client.get("/assets/a.css?v=1", headers={"Accept-Encoding": accepted})
        assert answer.headers.get("content-encoding") == encoding
        assert "Accept-Encoding" in answer.headers["vary"]
        assert (int(answer.headers["content-length"]) < len(TEXT)) == bool(encoding)
        assert answer.content == TEXT
    assert asked == ["/assets/a.css"]


def test_the_page_is_compressed_but_made_anew_each_time(client, asked):
    for _ in range(2):
        assert client.get("/", headers={"Accept-Encoding": "br"}).headers["content-encoding"] == "br"
    assert asked == ["/", "/"]


@pytest.mark.parametrize(
    "path", ["/assets/missing.css", "/arcade/chunk", "/gradio_api/file=a.css", "/arcade/recordings/"]
)
def test_refusals_and_what_may_change_are_not_kept(client, asked, path):
    for _ in range(2):
        assert client.get(path).content == TEXT
    assert asked == [path, path]


def test_pictures_are_kept_as_they_are_and_parts_of_a_file_are_the_apps_own_to_answer(client, asked):
    for _ in range(2):
        assert "content-encoding" not in client.get("/static/a.png", headers={"Accept-Encoding": "br"}).headers
    client.get("/static/a.png", headers={"Range": "bytes=0-1"})
    assert asked == ["/static/a.png", "/static/a.png"]


def test_no_more_is_kept_than_there_is_room_for(client, asked, monkeypatch):
    monkeypatch.setattr(compression, "MOST_BYTES", 1.5 * len(TEXT))
    for path in ("/assets/a.css", "/assets/b.css", "/assets/a.css", "/assets/b.css"):
        client.get(path)
    assert asked == ["/assets/a.css", "/assets/b.css", "/assets/b.css"]
