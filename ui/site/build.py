"""A static arcade in a folder: pages, scripts, pictures and recorded games, all asked for by relative addresses."""

import gzip
import hashlib
import json
import re
from collections.abc import Collection, Sequence
from concurrent.futures import as_completed
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import safetensors.torch

import zoo
from a3c_core.agent import Agent
from a3c_core.envs import protocols_of
from a3c_core.evaluation import environment_value
from playback.perturbation import perturbations_of
from ui import how, modules
from ui.play.routes import PLAYABLE
from ui.play.tab import SPEED_WORDS, Setup, set_up
from ui.recordings.make import made_anew, process_for_each
from ui.site.record import MOST_SECONDS, MOST_SECONDS_YOUNG, SEEDS, Recorded, record_all
from ui.streaming.agent_catalog import watchable
from ui.streaming.chunks import header_of
from ui.theme import CSS
from ui.watch.tab import about, stages
from ui.zoo_tab.page import agent_page
from ui.zoo_tab.tab import all_agents
from ui.zoo_tab.thumbnails import thumbnail_of

HERE = Path(__file__).parent
GAMES, THUMBNAILS, SCRIPTS, WEIGHTS = "games", "thumbnails", "js", "weights"
PAGES = {"index.html": "Watch", "play.html": "Play", "zoo.html": "Zoo", "how.html": "How it works"}
"""What the pages are called, by their files."""
OWN_SCRIPT = {"play.html": ["site/play.js"], "zoo.html": ["zoo_tab/zoo.js"], "how.html": ["how/how.js"]}
"""What site.js imports for one page alone."""
INDEX, STYLE = "index.json", "arcade.css"
PLAYED = ("CartPole-v1", "Pendulum-v1")
"""Games that the browser plays itself, by `RULES` in simulation.js."""


class Built(NamedTuple):
    """What was made."""

    games: list[Recorded]
    files: int
    megabytes: float


def build(out: Path, *, agents: list[str], app: str = "", processes: int = 2) -> Built:
    """Makes the folder `out`, of the games of some of the zoo's agents; its pages link to the `app` where there is one.

    Raises ValueError where `out` holds something else, CheckpointError, HubError and OSError.
    """
    with made_anew(out, by=[INDEX, STYLE, GAMES]) as new:
        games = fill(new, agents, app, processes=processes)
    files = [path for path in out.rglob("*") if path.is_file()]
    return Built(games, len(files), sum(path.stat().st_size for path in files) / 1e6)


def fill(out: Path, agents: list[str], app: str, *, processes: int) -> list[Recorded]:
    """Writes everything into a folder that is not there yet, and returns the games."""
    for part in (GAMES, THUMBNAILS, WEIGHTS):
        (out / part).mkdir(parents=True)
    games = recorded(agents, out / GAMES, processes=processes)
    entries = [zoo.entries()[name] for name in agents]
    for entry in entries:
        (out / THUMBNAILS / f"{entry.name}.png").write_bytes(thumbnail_of(entry))
    scripts = f"{SCRIPTS}/{modules.version()}"
    for name, module in modules.modules().items():
        place = out / scripts / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(module)
    (out / STYLE).write_text(CSS + (HERE / "site.css").read_text(encoding="utf-8"), encoding="utf-8")
    told = [game._asdict() for game in games]
    found = {entry.name: playable(entry, out, told) for entry in entries if entry.recipe.env in PLAYED}
    played = {name: told for name, told in found.items() if told}
    match = played_by_hand(played)
    write_pages(out, entries, scripts, app, match, first_files(games, played))
    index = {
        "agents": [described(entry, agents) for entry in entries],
        "games": told,
        "played": played,
        "play": match and {**match.screen, "speeds": SPEED_WORDS},
    }
    (out / INDEX).write_text(json.dumps(index, separators=(",", ":")), encoding="utf-8")
    return games


def recorded(agents: list[str], directory: Path, *, processes: int) -> list[Recorded]:
    """Records the games, of several agents at once."""
    asked = [(name, protocol) for name in agents for protocol in protocols_of(zoo.entries()[name].recipe.env)]
    with process_for_each(processes) as pool:
        jobs = {pool.submit(record_all, *each, directory): each for each in asked}
        found = {}
        for job in as_completed(jobs):
            found[jobs[job]] = job.result()
            name, protocol = jobs[job]
            print(f"{name}, {protocol}: {len(found[jobs[job]])} games", flush=True)
    return [game for each in asked for game in found[each]]


def described(entry: zoo.ZooEntry, agents: list[str]) -> dict[str, Any]:
    """What the page says of an agent."""
    return {
        "name": entry.name,
        "env": entry.recipe.env,
        "about": static(about(watchable(entry.name)), agents),
        "stages": {str(snapshot): words for words, snapshot in stages(watchable(entry.name))},
    }


def playable(entry: zoo.ZooEntry, out: Path, games: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What a browser needs to play an agent's game itself, its weights written to files; None for networks that are
    more than linear layers with tanh between them, and for policies with a temperature or whose actions are drawn."""
    recipe = entry.recipe
    kind = (recipe.encoder, recipe.core, recipe.layer_norm, recipe.sampling_temperature)
    plain = kind == ("vector", "none", False, 1.0) and all(map(is_linear, entry.open().model.state_dict()))
    if not (plain and entry.score.greedy):
        return None
    recorded_first = next(game["files"][0] for game in games if game["agent"] == entry.name)
    data = gzip.decompress((out / GAMES / recorded_first).read_bytes())
    game = header_of(data[4:])["game"]
    weights = {}
    for snapshot in entry.snapshots:
        packed = weights_of(entry.open(snapshot))
        name = f"{hashlib.sha256(packed).hexdigest()[:20]}.safetensors"
        (out / WEIGHTS / name).write_bytes(packed)
        weights[str(snapshot)] = name
    return {
        "weights": weights,
        "shift": -environment_value(0.0, entry.recipe),
        "scale": entry.recipe.reward_scale,
        "about": game | {"kinds": perturbations_of(entry.recipe)},
    }


def played_by_hand(played: Collection[str]) -> Setup | None:
    """The match that the page Play begins with, of a game that a browser plays itself; None where there is none."""
    matches = (set_up({"play": name}) for name in PLAYABLE)
    return next((match for match in matches if match.screen["agent"] in played), None)


def is_linear(tensor: str) -> bool:
    """Whether a tensor of that name belongs to a linear layer of the heads, or is a policy's deviation."""
    return tensor.startswith(("policy.logits.", "policy.mean.", "policy.log_std", "value."))


def weights_of(agent: Agent) -> bytes:
    """An agent's weights as safetensors, in single precision."""
    return safetensors.torch.save(
        {name: tensor.float().contiguous() for name, tensor in agent.model.state_dict().items()}
    )


def first_files(games: Sequence[Recorded], played: dict[str, dict[str, Any]]) -> list[str]:
    """What the first picture of the first game needs besides the index: its agent's weights where the browser plays it;
    nothing where there are no games."""
    if not games:
        return []
    game = games[0]
    if game.agent in played:
        return [f"{WEIGHTS}/{played[game.agent]['weights'][str(game.snapshot)]}"]
    return [f"{GAMES}/{game.files[0]}"]


def write_pages(
    out: Path, entries: list[zoo.ZooEntry], scripts: str, app: str, match: Setup | None, first: Sequence[str]
) -> None:
    """Writes all pages; what is on them comes from the tabs of the app. `first` are files of the first game."""
    agents = [entry.name for entry in entries]
    tabs = [file for file in PAGES if match or file != "play.html"]
    frame = partial(write_page, out, tabs, scripts, app)
    frame("index.html", "Watch", (HERE / "watch.html").read_text(encoding="utf-8"), fetched=(INDEX, *first))
    if match:
        play = Template((HERE / "play.html").read_text(encoding="utf-8"))
        frame("play.html", "Play", play.substitute(about=match.about), fetched=(INDEX,))
    frame("zoo.html", "Zoo", f'<div id="zoo">{static(all_agents(entries), agents)}</div>')
    for entry in entries:
        frame(f"zoo-{entry.name}.html", entry.name, f'<div id="zoo">{static(agent_page(entry), agents)}</div>')
    text = re.sub(r'href="\?tab=how#', 'href="#', how.lesson())
    there = f'href="{escape(app, quote=True)}?tab=retrain" target="_blank" rel="noopener"'
    text = re.sub(r'<a href="\?tab=retrain"[^>]*>(.*?)</a>', rf"<a {there}>\1</a>" if app else r"\1 of the app", text)
    frame("how.html", "How it works", f'<article class="lesson">{text}</article>')


def write_page(
    out: Path, tabs: list[str], scripts: str, app: str, file: str, title: str, body: str, fetched: Collection[str] = ()
) -> None:
    """Writes one page with the frame that all share; `tabs` are the pages that lead to all others, `fetched` the files
    that its script will ask for."""
    front = "zoo.html" if file.startswith("zoo") else file
    links = "".join(
        f'<a href="{name}"{" aria-current=page" if name == front else ""}>{PAGES[name]}</a>' for name in tabs
    )
    needed = modules.needed("site/site.js", *OWN_SCRIPT.get(front, ()))
    preloads = [f'<link rel="modulepreload" href="{scripts}/{name}">' for name in needed]
    preloads += [f'<link rel="preload" as="fetch" crossorigin href="{name}">' for name in fetched]
    live = f'<a href="{escape(app, quote=True)}" target="_blank" rel="noopener">Play Atari and train in the app</a>'
    frame = Template((HERE / "frame.html").read_text(encoding="utf-8"))
    parts = {"title": escape(title), "tabs": links + (live if app else ""), "scripts": scripts, "body": body}
    parts |= {"preloads": "\n".join(preloads)}
    (out / file).write_text(frame.substitute(parts), encoding="utf-8")


def static(html: str, agents: list[str]) -> str:
    """The app's HTML with addresses of files in place of the server's; what only a server has is left out."""
    rules = {
        r'<a href="arcade/checkpoint[^>]*>.*?</a>': "",
        r"arcade/thumbnail\?agent=([\w.-]+)": rf"{THUMBNAILS}/\1.png",
        r'href="\?agent=([\w.-]+)"': r'href="index.html?agent=\1"',
        r'href="\?zoo=" data-zoo=""': 'href="zoo.html"',
        r'href="\?tab=how#': 'href="how.html#',
        r'href="\?zoo=([\w.-]+)" data-zoo="[^"]*"': lambda found: (
            f'href="zoo-{found[1]}.html"' if found[1] in agents else 'href="zoo.html"'
        ),
    }
    for pattern, words in rules.items():
        html = re.sub(pattern, words, html, flags=re.DOTALL)
    return html


def summary(built: Built) -> str:
    """What was made and what was left out, for the terminal."""
    cut = [game for game in built.games if not game.whole]
    steps = sum(game.looks for game in built.games)
    lines = [
        f"{built.files} files, {built.megabytes:.1f} MB: {len(built.games)} games, "
        f"{steps:,} steps of them with maps of what the agent looks at",
        f"recorded: seeds {', '.join(map(str, SEEDS))}, of snapshots {SEEDS[0]} alone, with actions as scored",
    ]
    if cut:
        lines.append(f"{len(cut)} games are cut: after {MOST_SECONDS:g} s, of snapshots after {MOST_SECONDS_YOUNG:g} s")
    return "\n".join(lines)
