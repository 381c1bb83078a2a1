"""The screen: one game, or several side by side, as videos that start by themselves and begin anew together."""

from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import gradio as gr
from gradio.data_classes import FileData
from huggingface_hub import constants

from ui.episodes import Recording
from ui.figures import number
from ui.games import game_of
from ui.gradio_internals import told_by
from ui.modules import mounted
from ui.streaming.takeovers import MOST_LETTERS

PLAIN: dict[str, Any] = {"apply_default_css": False, "js_on_load": None}
"""HTML that this app styles itself and that does nothing when it is clicked."""


LONGEST_QUERY = 2 * MOST_LETTERS
"""Of an address that a page's script sends."""


def query_of(event: gr.EventData) -> dict[str, str]:
    """The query that a page's script tells with an event, as `visit` does; empty where it tells none."""
    told = told_by(event).get("query")
    return dict(parse_qsl(told)) if isinstance(told, str) and len(told) < LONGEST_QUERY else {}


class Shot(NamedTuple):
    """A recording with the name it goes by on the screen."""

    name: str
    recording: Recording


def screen(elem_id: str) -> gr.HTML:
    """An empty screen. Its value is what `show` returns; the script sets texts as text, never as HTML."""
    plain = PLAIN | {"js_on_load": mounted("screen.js")}
    return gr.HTML(elem_id=elem_id, elem_classes="screen", html_template='<div class="stage"></div>', **plain)


def link_to(repo: str) -> str:
    """A link to a repository on the Hub."""
    address = escape(f"{constants.ENDPOINT}/{repo}", quote=True)
    return f'<a href="{address}" target="_blank" rel="noopener">{escape(repo)}</a>'


def into_view(elem_id: str) -> str:
    """The script that scrolls to an element, on a phone, where it may be far from the button that changes it."""
    behavior = "matchMedia('(prefers-reduced-motion: reduce)').matches ? 'instant' : 'smooth'"
    scroll = f"document.getElementById('{elem_id}').scrollIntoView({{block: 'nearest', behavior: {behavior}}})"
    return f"() => {{ setTimeout(() => {scroll}, 200); }}"  # by then the page has made room for it


def show(*shots: Shot) -> list[dict[str, Any]]:
    """The value of a screen that shows `shots`."""
    return [
        {
            "video": FileData(path=str(recording.video)).model_dump(),
            "game": recording.env,
            "name": name,
            "note": f"Return {number(recording.total)}",
            "spoken": f"{game_of(recording.env).name} played by {name}: return {number(recording.total)}",
        }
        for name, recording in shots
    ]
