"""The player: a canvas with a streamed game (see ui/broadcast/chunks.py), beside it the agent's policy and value."""

from typing import Any

import gradio as gr

from ui.broadcast.chunks import Ticket
from ui.broadcast.nudges import written
from ui.modules import mounted
from ui.screen import PLAIN


def player(elem_id: str, value: dict[str, Any] | None = None) -> gr.HTML:
    """A player. Its value is what `showing` returns; the script sets texts as text, never as HTML."""
    plain = PLAIN | {"js_on_load": mounted("watch/player.js")}
    return gr.HTML(
        value, elem_id=elem_id, elem_classes="player-box", html_template='<div class="player"></div>', **plain
    )


def showing(ticket: Ticket, at: int | None = None) -> dict[str, Any]:
    """The value of a player that shows the game of `ticket`, from step `at` on."""
    actions = "greedy" if ticket.greedy else "sampled"
    return {**ticket._asdict(), "greedy": None, "actions": actions, "nudges": written(ticket.nudges), "at": at}
