"""The Watch tab: an agent of the zoo plays a game."""

import math
from html import escape
from typing import Any, NamedTuple

import gradio as gr

import zoo
from a3c_core.checkpoint import CheckpointError
from a3c_core.envs import FIRST_TRAINING_SEED
from ui.episodes import Recording, Shelf, record, scratch
from ui.figures import curve, number
from ui.games import game_of
from ui.screen import PLAIN, Shot, screen, show
from ui.settings import choice, refusal, whole

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


def recorded(agent: str, seed: int) -> Recording:
    """The game that `agent` plays from `seed`, recorded now or earlier."""

    def make() -> Recording:
        video = scratch() / f"{agent}-seed-{seed}.mp4"
        return record(zoo.load(agent), seed, video, title=f"A3C Arcade: {agent}", greedy=zoo.is_greedy(agent))

    try:
        return SHELF.get((agent, seed), make)
    except (CheckpointError, OSError):
        raise gr.Error(f"{agent} cannot play: its files are damaged.") from None


def verdict_of(recording: Recording, entry: zoo.ZooEntry) -> str:
    """The game's return in words, with what the agent scores on average."""
    game, score = game_of(recording.env), entry.score
    return (
        f"<p>Return <strong>{number(recording.total)}</strong> in this game. {escape(entry.name)} scores "
        f"<strong>{number(score.mean)} ± {number(score.std)}</strong> on average ({escape(score.conditions)}).</p>"
        f"<p>{escape(game.goal)}</p>"
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
