"""The Watch tab: an agent of the zoo plays a game."""

import math
import secrets
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import gradio as gr

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError, load_agent
from a3c_core.envs import FIRST_TRAINING_SEED
from ui.episodes import Recording, Shelf, record, scratch
from ui.figures import curve, number
from ui.games import game_of
from ui.screen import PLAIN, Shot, screen, show
from ui.settings import choice, refusal, whole
from zoo import hub

SHELF = Shelf(size=64)
LAST_SEED = FIRST_TRAINING_SEED - 1


class Watched(NamedTuple):
    """What a game puts on the page."""

    screen: list[dict[str, Any]]
    verdict: str
    curves: str
    video: str


def build(page: gr.Blocks) -> None:
    """Lays out the tab and wires it."""
    names = list(zoo.entries())
    with gr.Column(elem_classes="cabinet"):
        stage = screen("watch-screen")
        with gr.Column(elem_classes="controls"):
            agent = choice(names, label="Agent")
            seed = gr.Number(0, label="Seed", info="The same seed gives the same game.", elem_id="watch-seed")
            button = gr.Button("Watch", variant="primary")
            verdict = gr.HTML(elem_id="watch-verdict", elem_classes="verdict", **PLAIN)
            download = gr.DownloadButton("Download the video", elem_classes="quiet")
            with gr.Accordion("An agent from the Hub", open=False, elem_classes="more"):
                repo = gr.Textbox(
                    label="Repository",
                    placeholder="user/a3c-CartPole-v1",
                    info="Anybody's agent of A3C Arcade's format.",
                    max_length=300,
                    elem_id="watch-repo",
                )
                fetch = gr.Button("Watch it", elem_classes="quiet")
        curves = gr.HTML(elem_id="watch-curves", elem_classes="curves", **PLAIN)
    outputs = [stage, verdict, curves, download]
    gr.on(
        [button.click, seed.submit, agent.input],
        watch,
        [agent, seed],
        outputs,
        api_name="watch",
        concurrency_limit=8,
        show_progress_on=[stage],
    )
    gr.on(
        [fetch.click, repo.submit],
        watch_repository,
        [repo, seed],
        outputs,
        api_name="watch_repository",
        concurrency_limit=4,
        show_progress_on=[stage],
    )
    page.load(watch, [agent, seed], outputs, queue=False, show_progress="hidden", api_visibility="private")


def watch(agent: str, seed: float) -> Watched:
    """Plays one game with an agent of the zoo, or takes it from the shelf."""
    entries = zoo.entries()
    if not (isinstance(agent, str) and agent in entries):
        raise refusal(f"Choose an agent: {' or '.join(entries)}.")
    entry = entries[agent]
    seed = whole(seed, "The seed", 0, LAST_SEED)
    recording = recorded(agent, seed)
    return Watched(
        screen=show(Shot(f"{agent}, seed {seed}", recording)),
        verdict=verdict_of(recording, entry),
        curves=curves_of(recording),
        video=str(recording.video),
    )


def watch_repository(text: str, seed: float) -> Watched:
    """Plays one game with the agent that anybody has published on the Hub."""
    repo = hub.repository(text) if isinstance(text, str) else None
    if repo is None:
        raise refusal("Name a repository on the Hugging Face Hub, as user/name.")
    seed = whole(seed, "The seed", 0, LAST_SEED)
    try:
        directory = zoo.fetched(repo)
        agent = load_agent(directory)
        recording = filmed((str(directory), seed), repo, lambda: agent, greedy=zoo.is_greedy(repo))
    except (CheckpointError, OSError) as error:
        raise refusal(escape(str(error))) from None  # a toast is HTML, and strangers' words are in it
    return Watched(
        screen=show(Shot(f"{repo}, seed {seed}", recording)),
        verdict=verdict_of(recording),
        curves=curves_of(recording),
        video=str(recording.video),
    )


def recorded(agent: str, seed: int) -> Recording:
    """The game that `agent` plays from `seed`, recorded now or earlier."""
    try:
        return filmed((agent, seed), agent, lambda: zoo.load(agent), greedy=zoo.is_greedy(agent))
    except (CheckpointError, OSError):
        raise gr.Error(f"{agent} cannot play: its files are damaged.") from None


def filmed(key: tuple[str, int], name: str, load: Callable[[], Agent], *, greedy: bool) -> Recording:
    """A game from the shelf, or recorded now. Raises CheckpointError or OSError where it can't be played."""

    def make() -> Recording:
        video = scratch() / f"{name.replace('/', '-')}-seed-{key[1]}-{secrets.token_hex(4)}.mp4"
        return record(load(), key[1], video, title=f"A3C Arcade: {name}", greedy=greedy)

    return SHELF.get(key, make)


def verdict_of(recording: Recording, entry: zoo.ZooEntry | None = None) -> str:
    """The game's return in words, with what an agent of the zoo scores on average."""
    average = entry and (
        f" {escape(entry.name)} scores <strong>{number(entry.score.mean)} ± {number(entry.score.std)}</strong> on "
        f"average ({escape(entry.score.conditions)})."
    )
    return (
        f"<p>Return <strong>{number(recording.total)}</strong> in this game.{average or ''}</p>"
        f"<p>{escape(game_of(recording.env).goal)}</p>"
    )


def curves_of(recording: Recording) -> str:
    """Return so far and value estimate over the game."""
    steps = range(1, len(recording.returns) + 1)
    shared = {"game": recording.env, "ends": ("start", f"{len(steps):,} steps"), "readout": True}
    finite = [value if math.isfinite(value) else 0.0 for value in recording.values.tolist()]
    return curve(steps, recording.returns.tolist(), label="Return so far", **shared) + curve(
        steps, finite, label="Value: rewards it still expects, discounted", **shared
    )


def warm_up() -> None:
    """Records the game that every visitor sees first."""
    recorded(next(iter(zoo.entries())), 0)
