"""The Watch tab: an agent of the zoo plays a game."""

from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple
from urllib.parse import urlencode

import gradio as gr

import zoo
from a3c_core.atari import ROMS
from a3c_core.checkpoint import CheckpointError
from ui.broadcast.routes import LAST_SEED, WAITED_FOR, Refused, recorded, ticket_of
from ui.broadcast.routes import number as whole_of
from ui.broadcast.stream import BROADCASTS, MOST_STEPS, BrokenOff, Full, get_ready
from ui.figures import number
from ui.games import game_of
from ui.line import Busy
from ui.screen import PLAIN, into_view, screen
from ui.settings import choice, refusal, whole
from ui.watch.player import player, showing
from ui.watch.strangers import watch_repository
from zoo.hub import HubError


class Shown(NamedTuple):
    """What choosing a game of the zoo puts on the page; what a stranger's left there goes."""

    player: dict[str, Any]
    verdict: str
    seed: int
    snapshot: Any
    sticky: Any
    screen: list[dict[str, Any]]
    curves: str


def build(page: gr.Blocks) -> None:
    """Lays out the tab and wires it."""
    names = list(zoo.entries())
    with gr.Column(elem_classes="cabinet"):
        stage = player("watch-player")
        stranger_stage = screen("watch-screen")
        with gr.Column(elem_classes="controls"):
            agent = choice(names, label="Agent")
            snapshot = choice(stages(zoo.entries()[names[0]]), label="Training", info="Watch it learn.")
            snapshot.value = 100
            seed = gr.Number(0, label="Seed", info="The same seed gives the same game.", elem_id="watch-seed")
            another = gr.Button("Another game", variant="primary")
            verdict = gr.HTML(elem_id="watch-verdict", elem_classes="verdict", **PLAIN)
            with gr.Accordion("How it plays", open=False, elem_classes="more"):
                actions = choice([("as scored", ""), ("likeliest", "greedy"), ("drawn", "sampled")], label="Actions")
                sticky = gr.Checkbox(label="Sticky actions: the console repeats a quarter of them", visible=False)
            with gr.Accordion("An agent from the Hub", open=False, elem_classes="more"):
                repo = gr.Textbox(
                    label="Repository",
                    placeholder="user/a3c-CartPole-v1",
                    info="Anybody's agent of A3C Arcade's format.",
                    max_lines=1,
                    max_length=300,
                    elem_id="watch-repo",
                )
                fetch = gr.Button("Watch it", elem_classes="quiet")
                download = gr.DownloadButton("Download the video", elem_id="watch-download", elem_classes="quiet")
        curves = gr.HTML(elem_id="watch-curves", elem_classes="curves", **PLAIN)

    chosen, shown = (
        [agent, snapshot, seed, actions, sticky],
        [stage, verdict, seed, snapshot, sticky, stranger_stage, curves],
    )
    quiet = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": 8}
    gr.on([agent.input, snapshot.input, seed.submit, actions.input, sticky.input], show_game, chosen, shown, **quiet)
    another.click(another_game, chosen, shown, **quiet)
    page.load(arrive, None, [agent, actions, *shown], **quiet)
    gr.api(watch, api_name="watch", concurrency_limit=2)

    asked = [fetch.click, repo.submit]
    gr.on(asked, js=into_view("watch-screen"))
    played = gr.on(
        asked,
        watch_repository,
        [repo, seed],
        [stranger_stage, verdict, curves, download],
        api_name="watch_repository",
        concurrency_limit=4,
        show_progress_on=[stranger_stage],
    )
    played.success(js=into_view("watch-screen"))


def stages(entry: zoo.ZooEntry) -> list[tuple[str, int]]:
    """The moments of its training at which an agent can be watched; one is not finished where steps are left."""
    names = {0: "none", 100: "all" if entry.done == 100 else f"{entry.done} %"}
    return [(names.get(share, f"{share} %"), share) for share in entry.snapshots]


def show_game(agent: object, snapshot: object, seed: object, actions: object, sticky: object) -> Shown:
    """Another game of an agent of the zoo. Raises gr.Error, with a sentence, for what is not on offer."""
    entry = zoo.entries().get(agent) if isinstance(agent, str) else None
    kept = {"snapshot": str(snapshot)} if entry and snapshot in entry.snapshots else {}
    chosen = {"actions": actions} if actions else {}
    protocol = {"protocol": "sticky"} if sticky and entry and entry.recipe.env in ROMS else {}
    seed = whole(seed, "The seed", 0, LAST_SEED)
    return shown_by({"agent": str(agent), "seed": str(seed)} | kept | chosen | protocol)


def another_game(agent: object, snapshot: object, seed: object, actions: object, sticky: object) -> Shown:
    """The game of the next seed."""
    seed = whole(seed, "The seed", 0, LAST_SEED)
    return show_game(agent, snapshot, (seed + 1) % (LAST_SEED + 1), actions, sticky)


def shown_by(asked: Mapping[str, str]) -> Shown:
    """The game that a query names, as it is in a link. Raises gr.Error, with a sentence, for one that can't be."""
    try:
        ticket, at = ticket_of(asked), whole_of(asked, "at", 0, MOST_STEPS)
    except Refused as error:
        raise refusal(escape(str(error))) from None
    entry = zoo.entries()[ticket.agent]
    return Shown(
        player=showing(ticket, at or None),
        verdict=about(entry),
        seed=ticket.seed,
        snapshot=gr.update(choices=stages(entry), value=ticket.snapshot),
        sticky=gr.update(visible=entry.recipe.env in ROMS, value=ticket.protocol == "sticky"),
        screen=[],
        curves="",
    )


def arrive(request: gr.Request) -> tuple[Any, ...]:
    """What the page shows first: the game that its address names, else the zoo's first agent."""
    asked = {} if "play" in request.query_params else dict(request.query_params)  # that is the Play tab's
    try:
        shown = shown_by({"agent": next(iter(zoo.entries()))} | asked)
    except gr.Error as error:
        gr.Warning(error.message)  # which only an event of the queue can show
        asked, shown = {}, shown_by({"agent": next(iter(zoo.entries()))})
    return shown.player["agent"], asked.get("actions", ""), *shown


def about(entry: zoo.ZooEntry) -> str:
    """What an agent scores on average, and what a good score is."""
    score = entry.score
    return (
        f"<p>{escape(entry.name)} scores <strong>{number(score.mean)} ± {number(score.std)}</strong> on average "
        f"({escape(score.conditions)}).</p><p>{escape(game_of(entry.recipe.env).goal)}</p>"
    )


def watch(agent: str, seed: int) -> dict[str, Any]:
    """Plays one game with an agent of the zoo: its return, its steps, and where its video is."""
    try:
        ticket = ticket_of({"agent": str(agent), "seed": str(whole(seed, "The seed", 0, LAST_SEED))})
        recording = recorded(ticket)
    except Refused as error:
        raise refusal(escape(str(error))) from None
    except HubError as error:
        raise refusal(escape(f"{ticket.agent} is not here yet: {error}")) from None
    except (Busy, Full):
        raise refusal(WAITED_FOR) from None
    except (CheckpointError, OSError, BrokenOff):
        raise gr.Error(f"{ticket.agent} cannot play: its files are damaged.") from None
    query = urlencode({"agent": ticket.agent, "seed": ticket.seed})
    return {"return": recording.total, "steps": len(recording.returns), "video": f"/arcade/video?{query}"}


def warm_up() -> None:
    """Begins the game that every visitor sees first, and gets ready for the others."""
    BROADCASTS.get(ticket_of({"agent": next(iter(zoo.entries()))}))
    for entry in zoo.entries().values():
        get_ready(entry.recipe)
