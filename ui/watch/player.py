"""The player: a canvas with a streamed game (see ui/streaming/chunks.py), beside it the agent's policy and value."""

from typing import Any

import gradio as gr

from ui.modules import mounted
from ui.screen import PLAIN
from ui.streaming import nudges, takeovers
from ui.streaming.agent_catalog import watchable, zoo_names
from ui.streaming.chunks import EpisodeSpec


def player(elem_id: str, tab: str = "", value: dict[str, Any] | None = None, *, visible: bool = True) -> gr.HTML:
    """A player. Its value is what `showing` returns; the script sets texts as text, never as HTML.

    The page's address tells what the player of a `tab` shows, and `visit` is where its visitor has gone back to.
    """
    plain = PLAIN | {"js_on_load": mounted("watch/player.js", "visit")}
    template = f'<div class="player" data-tab="{tab}"></div>'
    classes = "player-box"
    return gr.HTML(value, elem_id=elem_id, elem_classes=classes, html_template=template, visible=visible, **plain)


def showing(spec: EpisodeSpec, at: int | None = None) -> dict[str, Any]:
    """The value of a player that shows the game of `spec`, from step `at` on."""
    actions = "greedy" if spec.greedy else "sampled"
    written = {"nudges": nudges.written(spec.nudges), "takeovers": takeovers.written(spec.takeovers)}
    return {**spec._asdict(), "greedy": None, "actions": actions, **written, "at": at, "others": others(spec)}


def others(spec: EpisodeSpec) -> list[dict[str, Any]]:
    """What can be watched beside a game: its agent at other moments of its training, and others of the same game."""
    agent = watchable(spec.agent)
    if agent is None:
        return []
    ages = [{"snapshot": age} for age in agent.snapshots if age != spec.snapshot]
    rivals = [name for name in zoo_names() if name != agent.name and watchable(name).recipe.env == agent.recipe.env]
    return ages + [{"agent": name, "snapshot": 100} for name in rivals]
