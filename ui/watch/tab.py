"""The Watch tab: an agent plays a game, from the zoo or from anybody's repository.

The first game is part of the page. An address that names another is answered at once, without the queue of slow work;
only an agent that has yet to come from the Hub waits in it.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import gradio as gr

import zoo
from a3c_core.envs import is_atari
from ui.board.days import seed_of, today
from ui.figures import number
from ui.games import game_of
from ui.gradio_internals import given, root_of
from ui.play.controls import CONTROLS
from ui.recordings.shelf import recording_of
from ui.screen import PLAIN, into_view, link_to, query_of
from ui.settings import choice, refusal, whole
from ui.status import alert_of
from ui.streaming.agent_catalog import Watchable, watchable, zoo_names
from ui.streaming.chunks import MOST_STEPS, EpisodeSpec
from ui.streaming.files import Files
from ui.streaming.routes import FAILURES, LAST_SEED, Refused, answer_to, spec_of
from ui.streaming.routes import number as whole_of
from ui.streaming.stream import Broadcasts, get_ready
from ui.visitors import address_of
from ui.watch.hub_agents import FETCHES_AT_ONCE, HubAgents, named
from ui.watch.player import player, showing
from zoo import hub

UNBROKEN, BREAK = "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH SPACE}"
"""Between a number and its sign."""


class Shown(NamedTuple):
    """What choosing a game puts on the page."""

    agent: Any
    player: dict[str, Any]
    verdict: str
    seed: int
    snapshot: Any
    sticky: Any


class Challenge(NamedTuple):
    """What leads from a game that is watched to playing it oneself."""

    button: gr.Button
    agent: gr.Radio
    seed: gr.Number


def build(page: gr.Blocks, hub_agents: HubAgents, files: Files, *, boards: bool) -> Challenge:
    """Lays out the tab and wires it, but for the button that it returns; `boards` says whether there are any."""
    names, landing = zoo_names(), landing_spec()
    first, console = watchable(landing.agent), is_atari(watchable(landing.agent).recipe.env)
    with gr.Column(elem_classes="cabinet"):
        stage = player("watch-player", "watch", showing(landing) | {"landing": True})
        with gr.Column(elem_classes="controls"):
            agent = choice(labelled(names), label="Agent", elem_classes="games")
            snapshot = choice(stages(first), label="Training", info="Watch it learn.", value=100)
            seed = gr.Number(0, label="Seed", info="The same seed gives the same game.", elem_id="watch-seed")
            another = gr.Button("Another game", variant="primary", elem_id="watch-another")
            todays = gr.Button("Today’s game", elem_classes="quiet", visible=boards and has_board(landing.agent))
            challenge = gr.Button("Play it yourself", elem_classes="quiet", elem_id="challenge")
            verdict = gr.HTML(about(first), elem_id="watch-verdict", elem_classes="verdict", **PLAIN)
            with gr.Accordion("How it plays", open=False, elem_classes="more"):
                actions = choice([("as scored", ""), ("greedy", "greedy"), ("sampled", "sampled")], label="Actions")
                sticky = gr.Checkbox(label="Sticky actions: the console repeats a quarter of them", visible=console)
            with gr.Accordion("An agent from the Hub", open=False, elem_classes="more"):
                repo = gr.Textbox(
                    label="Repository",
                    placeholder="user/a3c-CartPole-v1",
                    info="Any agent published with A3C Arcade.",
                    max_lines=1,
                    max_length=300,
                    elem_id="watch-repo",
                )
                fetch = gr.Button("Watch it", elem_classes="quiet")

    linked = gr.Textbox(visible="hidden")  # the query of a link whose agent has yet to come from the Hub
    chosen, shown = [agent, snapshot, seed, actions, sticky], [agent, stage, verdict, seed, snapshot, sticky]
    quiet = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": 8}
    fetching = quiet | {"concurrency_limit": FETCHES_AT_ONCE}
    gr.on([agent.input, snapshot.input, seed.submit, actions.input, sticky.input], show_game, chosen, shown, **quiet)
    another.click(another_game, chosen, shown, **quiet)
    todays.click(todays_game, chosen, shown, **quiet)
    agent.change(lambda name: gr.update(visible=boards and has_board(name)), agent, todays, **quiet | {"queue": False})
    page.load(arrive, None, [linked, actions, *shown], **quiet)
    stage.visit(come_back, None, [linked, actions, *shown], trigger_mode="multiple", **quiet)
    linked.change(given(show_linked, hub_agents), linked, [actions, *shown], **fetching)
    gr.api(given(watch, hub_agents, files), api_name="watch", concurrency_limit=12)

    begun = gr.on([fetch.click, repo.submit], given(show_stranger, hub_agents), [repo, seed, agent], shown, **fetching)
    begun.success(js=into_view("watch-player"))
    return Challenge(challenge, agent, seed)


def labelled(names: list[str]) -> list[tuple[str, str]]:
    """Agents as a radio button wants them; a name too long for a line breaks after an underscore."""
    return [(name.replace("_", f"_{BREAK}"), name) for name in names]


def landing_spec() -> EpisodeSpec:
    """The game that every visitor sees first."""
    return spec_of({"agent": zoo_names()[0]})


def stages(agent: Watchable) -> list[tuple[str, int]]:
    """The moments of its training at which an agent can be watched; one is not finished where steps are left."""
    entry = zoo.entries().get(agent.name)
    names = {0: "none", 100: f"{entry.done}{UNBROKEN}%" if entry and entry.done < 100 else "all"}
    return [(names.get(share, f"{share}{UNBROKEN}%"), share) for share in agent.snapshots]


def show_game(agent: object, snapshot: object, seed: object, actions: object, sticky: object) -> Shown:
    """Another game of an agent. Raises gr.Error, with a sentence, for what is not on offer."""
    known = watchable(agent) if isinstance(agent, str) else None
    kept = {"snapshot": str(snapshot)} if known and snapshot in known.snapshots else {}
    chosen = {"actions": actions} if actions else {}
    protocol = {"protocol": "sticky"} if sticky and known and is_atari(known.recipe.env) else {}
    seed = whole(seed, "The seed", 0, LAST_SEED)
    return shown_by({"agent": str(agent), "seed": str(seed)} | kept | chosen | protocol)


def another_game(agent: object, snapshot: object, seed: object, actions: object, sticky: object) -> Shown:
    """The game of the next seed."""
    seed = whole(seed, "The seed", 0, LAST_SEED)
    return show_game(agent, snapshot, (seed + 1) % (LAST_SEED + 1), actions, sticky)


def todays_game(agent: object, snapshot: object, seed: object, actions: object, sticky: object) -> Shown:
    """The game of the day's seed, as everybody plays it."""
    return show_game(agent, snapshot, seed_of(today()), actions, False)


def has_board(agent: object) -> bool:
    """Whether people can play the day's game of an agent, which is what boards are for."""
    entry = zoo.entries().get(agent) if isinstance(agent, str) else None
    return entry is not None and entry.recipe.env in CONTROLS


def shown_by(asked: Mapping[str, str]) -> Shown:
    """The game that a query names, as it is in a link. Raises gr.Error, with a sentence, for one that can't be."""
    try:
        spec, at = spec_of(asked), whole_of(asked, "at", 0, MOST_STEPS)
    except Refused as error:
        raise refusal(escape(str(error))) from None
    names, agent = zoo_names(), watchable(spec.agent)
    return Shown(
        agent=gr.update(choices=labelled(names if agent.name in names else [*names, agent.name]), value=agent.name),
        player=showing(spec, at or None) | {"visit": asked.get("visit")},
        verdict=about(agent),
        seed=spec.seed,
        snapshot=gr.update(choices=stages(agent), value=spec.snapshot),
        sticky=gr.update(visible=is_atari(agent.recipe.env), value=spec.protocol == "sticky"),
    )


def show_stranger(
    hub_agents: HubAgents, text: object, seed: object, agent: object, request: gr.Request
) -> Iterator[Shown]:
    """A game of anybody's agent on the Hub, in the place of `agent`. Raises gr.Error, with a sentence."""
    asked = {"agent": named(text), "seed": str(whole(seed, "The seed", 0, LAST_SEED))}
    yield only(fetching_words(asked["agent"]))
    try:
        hub_agents.invite(asked, address_of(request))
    except gr.Error:
        before = watchable(agent) if isinstance(agent, str) else None
        yield only(about(before) if before else "")
        raise
    yield shown_by(asked)


def only(verdict: object) -> Shown:
    """Nothing on the page changes but the words beside the game."""
    return Shown(**dict.fromkeys(Shown._fields, gr.skip()) | {"verdict": verdict})


class Arrival(NamedTuple):
    """What an address puts on the page: its query where the agent has yet to be fetched, how the agent acts, and all
    of a Shown."""

    linked: Any
    actions: Any
    shown: Shown

    def outputs(self) -> tuple[Any, ...]:
        """For the page's components."""
        return self.linked, self.actions, *self.shown


def arrive(request: gr.Request) -> tuple[Any, ...]:
    """The game that the page's address names; one that names none keeps the game that the page brings along."""
    if not request.query_params:
        return Arrival(gr.skip(), gr.skip(), only(gr.skip())).outputs()
    asked = {} if "play" in request.query_params else dict(request.query_params)  # that is the Play tab's
    return arrival(asked | {"visit": "0"})


def come_back(event: gr.EventData) -> tuple[Any, ...]:
    """The game of an address to which the visitor has gone back."""
    return arrival(query_of(event))


def arrival(asked: dict[str, str]) -> tuple[Any, ...]:
    """The game that a query names; an agent of the Hub that is not here is fetched by `show_linked`.

    The player is told the query's `visit`, a number: it shows no game of a query that another has followed.
    """
    if repo := hub.repository(asked.get("agent", "")):
        asked["agent"] = repo
        if watchable(repo) is None:
            return Arrival(urlencode(asked), gr.skip(), only(fetching_words(repo))).outputs()
    return Arrival(gr.skip(), *named_game(asked)).outputs()


def show_linked(hub_agents: HubAgents, query: object, request: gr.Request | None = None) -> tuple[Any, ...]:
    """The game of a link whose agent had to be fetched from the Hub; where it cannot be, the first game."""
    asked = dict(parse_qsl(str(query)))
    try:
        hub_agents.invite(asked | {"agent": named(asked.get("agent"))}, address_of(request))
    except gr.Error as error:
        return "", *refused_game(error.message, asked)
    actions, shown = named_game(asked)
    return actions, *shown


def named_game(asked: Mapping[str, str]) -> tuple[str, Shown]:
    """How the agent acts, and the game that a query names; where there is none, the first game and the reason."""
    try:
        return asked.get("actions", ""), shown_by({"agent": zoo_names()[0]} | asked)
    except gr.Error as error:
        return "", refused_game(error.message, asked)


def refused_game(sentence: str, asked: Mapping[str, str]) -> Shown:
    """The game that every visitor sees first, and why it is not the one that was asked for."""
    shown = shown_by({"agent": zoo_names()[0]})
    player = shown.player | {"visit": asked.get("visit")}
    return shown._replace(player=player, verdict=alert_of(sentence) + shown.verdict)


def fetching_words(repo: str) -> str:
    """What is said until an agent is here."""
    return f"<p>Fetching {escape(repo)} from the Hub.</p>"


def about(agent: Watchable) -> str:
    """What an agent scores on average, and what a good score is."""
    name, goal = escape(agent.name), escape(game_of(agent.recipe.env).goal)
    entry = zoo.entries().get(agent.name)
    if entry is None:
        return f"<p>{link_to(agent.name)} is an agent that somebody published on the Hub.</p><p>{goal}</p>"
    score = entry.score
    return (
        f"<p>{name} scores <strong>{number(score.mean)} ± {number(score.std)}</strong> on average "
        f"({escape(score.conditions)}).</p><p>{goal}</p>"
    )


def watch(
    hub_agents: HubAgents, files: Files, agent: str, seed: int, request: gr.Request | None = None
) -> dict[str, Any]:
    """Plays one game with an agent of the zoo or of anybody's repository on the Hub, `user/name`: its return, its
    steps, and where its video is."""
    seed = whole(seed, "The seed", 0, LAST_SEED)
    asked = {"agent": str(agent), "seed": str(seed)}
    if "/" in asked["agent"]:
        asked["agent"] = named(agent)
        hub_agents.invite(asked, address_of(request))
    try:
        recording = files.video(spec_of(asked), address_of(request))
    except FAILURES as failure:
        raise refusal(escape(answer_to(failure, asked).sentence)) from None
    video = f"{root_of(request)}/arcade/video?{urlencode(asked)}"
    return {"return": recording.total, "steps": len(recording.returns), "video": video}


def warm_up(broadcasts: Broadcasts) -> None:
    """Begins the game that every visitor sees first, unless it is recorded, and gets ready for the others."""
    if recording_of(landing_spec()) is None:
        with suppress(*FAILURES):  # whoever asks for it will be told
            broadcasts.get(landing_spec())
    for entry in zoo.entries().values():
        get_ready(entry.recipe)
