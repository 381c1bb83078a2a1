"""The Zoo tab: all agents with their scores beside what others have published, and a page for each."""

from collections.abc import Iterable
from html import escape
from typing import Any

import gradio as gr

import zoo
from a3c_core.evaluation import Score
from ui.asynchrony.figures import asynchrony_section
from ui.figures import number
from ui.games import game_of
from ui.gradio_internals import told_by
from ui.modules import mounted
from ui.screen import PLAIN
from ui.settings import refusal
from ui.status import alert_of
from ui.zoo_tab.figures import scale
from ui.zoo_tab.page import agent_page, fact, game_button, score_marks, size_of, spread
from zoo.card import duration
from zoo.loading import unknown
from zoo.peers import Peer, peers_of

INTRO = (
    "Every agent here was trained by this project's own code. Its score stands beside what others have published for "
    "the same game, higher or lower."
)
NOTE = (
    "A score is the mean return of many games ± their standard deviation; the interval contains the mean over all "
    "seeds with 95 % confidence (mean ± 1.96 standard errors, assuming a normal distribution). It does not show how "
    "other trainings with the same recipe would end. Under Atari's classic protocol games differ only by the idle "
    "frames that begin them, so their spread is small; the sticky protocol repeats a quarter of the actions and is "
    "harder."
)


def build(page: gr.Blocks, tabs: gr.Tabs) -> None:
    """Lays out the tab and wires it."""
    plain = PLAIN | {"js_on_load": mounted("zoo_tab/zoo.js", "select")}
    view = gr.HTML(all_agents(), elem_id="zoo", **plain)
    quiet = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": 8}
    view.select(chosen, None, view, trigger_mode="multiple", **quiet)  # back may be pressed meanwhile
    page.load(arrive, None, [tabs, view], **quiet)


def chosen(event: gr.EventData) -> str:
    """The page of the agent that was clicked, or all agents. Raises gr.Error, with a sentence, for any other."""
    return view_of(told_by(event).get("name"))


def view_of(name: object) -> str:
    """One agent's page, or with an empty name all agents. Raises gr.Error, with a sentence, for any other."""
    if name == "":
        return all_agents()
    entry = zoo.entries().get(name) if isinstance(name, str) else None
    if entry is None:
        words = unknown(name, zoo.entries()) if isinstance(name, str) and len(name) < 100 else "there is no such agent."
        raise refusal(escape(words[:1].upper() + words[1:]))
    return agent_page(entry)


def arrive(request: gr.Request) -> tuple[Any, Any]:
    """Opens the tab, and the agent's page, where the page's address asks for it: ?zoo=pong."""
    asked = request.query_params.get("zoo")
    if asked is None:
        return gr.skip(), gr.skip()
    try:
        return gr.Tabs(selected="zoo"), view_of(asked)
    except gr.Error as error:
        return gr.Tabs(selected="zoo"), alert_of(error.message) + all_agents()


def all_agents(entries: Iterable[zoo.ZooEntry] | None = None) -> str:
    """A card for each agent, by default all of the zoo, what asynchrony gave, and where the others' scores are from."""
    entries = list(zoo.entries().values() if entries is None else entries)
    cards = "".join(card(entry) for entry in entries)
    published = [peer for env in dict.fromkeys(entry.recipe.env for entry in entries) for peer in peers_of(env)]
    return (
        f'<div class="zoo"><p class="intro">{INTRO}</p><ul class="cards">{cards}</ul>'
        f'<p class="small">{NOTE}</p>{asynchrony_section()}{sources(published)}</div>'
    )


def card(entry: zoo.ZooEntry) -> str:
    """One agent: its game, its numbers, its place among others."""
    env, score = entry.recipe.env, entry.score
    facts = [
        fact("Score", spread(score), interval(score)),
        fact("Sticky score", spread(entry.sticky_score), interval(entry.sticky_score)) if entry.sticky_score else "",
        fact("Trained", f"{score.steps:,} steps", f"in {duration(entry.hours)}"),
        fact("Size", f"{entry.parameters:,} weights", size_of(entry)),
    ]
    return (
        f'<li class="card" data-game="{escape(env)}">{game_button(entry)}'
        f'<div class="about"><h2><a href="?zoo={entry.name}" data-zoo="{entry.name}">{escape(entry.name)}</a></h2>'
        f'<p>{escape(entry.summary)}</p><dl class="facts">{"".join(facts)}</dl></div>'
        f'<div class="beside">{scale(score_marks(entry), f"{game_of(env).name}: beside what others have published")}'
        f'<p class="small">{standing(entry, peers_of(env))}</p></div></li>'
    )


def interval(score: Score) -> str:
    """Between which means it probably is."""
    low, high = score.interval
    return f"95 % interval of the mean: {number(low)} to {number(high)}"


def standing(entry: zoo.ZooEntry, published: tuple[Peer, ...]) -> str:
    """How many of the published agents score higher, equal and lower, in a sentence."""
    mean, agents = round(entry.score.mean, 1), [peer for peer in published if peer.kind == "peer"]
    if not agents:
        return "We know of no other agent's score for this game."
    higher, lower = (sum(sign * (peer.score - mean) > 0.05 for peer in agents) for sign in (1, -1))
    counts = {"higher": higher, "the same": len(agents) - higher - lower, "lower": lower}
    told = [f"{count} score{'s' if count == 1 else ''} {how}" for how, count in counts.items() if count]
    if len(told) == 1 and len(agents) > 1:
        every = "Both" if len(agents) == 2 else f"All {len(agents)}"
        return f"{every} published agents {told[0].split(' ', 1)[1]}."
    return f"Of {len(agents)} published agents {', '.join(told)}."


def sources(published: list[Peer]) -> str:
    """The others' scores as a table, each with where it is from and how it was taken."""
    rows = "".join(
        f"<tr><td>{escape(game_of(peer.env).name)}</td><td>{escape(peer.player)}</td>"
        f'<td class="number">{number(peer.score)}{f" to {number(peer.highest)}" if peer.highest else ""}</td>'
        f'<td><a href="{escape(peer.source.url)}" target="_blank" rel="noopener">{escape(peer.source.title)}</a></td>'
        f"<td>{escape(peer.source.protocol)}</td></tr>"
        for peer in published
    )
    columns = ("Game", "Player", "Score", "Source", "How it was measured")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return (
        "<details><summary>Sources of the published scores</summary><p>They were measured under other rules and after "
        "longer or shorter trainings than ours, so small differences mean nothing.</p>"
        '<div class="wide" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )
