"""The How it works tab: the algorithm explained with its own code, on a page made when it is first asked for."""

import re
from functools import cache
from html import escape
from pathlib import Path
from string import Template

import gradio as gr
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from ui.how import code, evidence
from ui.modules import mounted
from ui.screen import PLAIN

HERE = Path(__file__).parent
OPENING = "The page is being opened."


def build() -> None:
    """Lays out the tab. Its script fetches the page when the tab is first opened, so nobody else waits for it."""
    plain = PLAIN | {"js_on_load": mounted("how/how.js")}
    template = f'<article class="lesson"><p role="status">{OPENING}</p></article>'
    gr.HTML(elem_id="how-page", html_template=template, **plain)


def chapters() -> list[str]:
    """The text, chapter by chapter, with names where code, figures and numbers belong."""
    return [path.read_text(encoding="utf-8") for path in sorted((HERE / "chapters").glob("*.html"))]


@cache
def lesson() -> str:
    """The whole page. Raises KeyError for a name that is neither code, figure nor number."""
    title, *others = chapters()
    parts = {f"code_{name}": code.shown(name) for name in code.PIECES}
    parts |= {name: make() for name, make in evidence.FIGURES.items()} | evidence.numbers()
    text = title + _contents(others) + "".join(_with_heading(chapter) for chapter in others)
    return Template(text).substitute(parts)


def page(request: Request) -> HTMLResponse:
    """GET /arcade/how: the text of the tab."""
    return HTMLResponse(lesson(), headers={"Cache-Control": "max-age=300"})


ROUTES = [Route("/arcade/how", page)]

_CHAPTER = re.compile(r'<section id="([a-z]+)" data-title="([^"]+)">')


def _contents(texts: list[str]) -> str:
    """Links to all chapters."""
    found = [_CHAPTER.search(text).groups() for text in texts]
    items = "".join(f'<li><a href="{link(name)}">{escape(title)}</a></li>' for name, title in found)
    return f'<nav aria-label="Chapters"><ol>{items}</ol></nav>'


def _with_heading(text: str) -> str:
    """A chapter whose heading is a link to itself."""
    return _CHAPTER.sub(
        lambda found: f'<section id="{found[1]}"><h3><a href="{link(found[1])}">{found[2]}</a></h3>', text
    )


def link(name: str) -> str:
    """The address of a chapter."""
    return f"?tab=how#{name}"
