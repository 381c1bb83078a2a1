"""Agents that anybody has published on the Hub: watching one, what is said where it fails, the room that they take."""

import math
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from huggingface_hub import constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

import zoo
from a3c_core.checkpoint import CheckpointError, load_agent, printable
from ui.broadcast.routes import LAST_SEED
from ui.episodes import Recording, filmed
from ui.figures import curve, number
from ui.games import game_of
from ui.screen import Shot, show
from ui.settings import refusal, whole
from zoo import hub

STRANGERS_STEPS = 5_000
"""Steps of a stranger's game that are played: one that never ends must not keep others waiting."""
MOST_BYTES = 300 * 2**20
"""Room for strangers' agents on this machine; the one not asked for longest goes first."""
MOST_LETTERS = 300
"""Of an error's message, which may quote a stranger's file at any length."""

Result = TypeVar("Result")

_asked_for: dict[str, None] = {}
"""Repositories that this process fetched for visitors, the one not asked for longest first."""
_sweeping = threading.Lock()


def fetched(repo: str) -> Path:
    """The checkpoint of anybody's repository on the Hub. Raises CheckpointError or HubError."""
    directory = zoo.fetched(repo)
    if repo not in {entry.published.repo for entry in zoo.entries().values() if entry.published}:
        _asked_for.pop(repo, None)
        _asked_for[repo] = None
        threading.Thread(target=partial(sweep, MOST_BYTES), daemon=True).start()
    return directory


def sweep(most_bytes: int) -> None:
    """Deletes those agents not asked for longest, until the others fit; of the cache, only what visitors asked for."""
    with _sweeping, suppress(CacheNotFound, OSError):
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
        found = {repo.repo_id: repo for repo in cache.repos if repo.repo_type == "model"}
        cached = [found[repo] for repo in list(_asked_for) if repo in found]
        excess, commits = sum(repo.size_on_disk for repo in cached) - most_bytes, []
        for repo in cached:
            if excess > 0:
                excess -= repo.size_on_disk
                commits += [revision.commit_hash for revision in repo.revisions]
        cache.delete_revisions(*commits).execute()


def guarded(repo: str, play: Callable[[], Result]) -> Result:
    """What `play` returns. Raises gr.Error, with a sentence, whatever is wrong with a stranger's agent."""
    try:
        return play()
    except (CheckpointError, OSError) as error:
        raise refusal(escape(words_of(error))) from None  # a toast is HTML, and strangers' words are in it
    except Exception as error:  # weights that fit their recipe can still break anything: torch, the game, the encoder
        print(f"{repo} broke down while playing: {type(error).__name__}")
        raise refusal(f"{repo} cannot play: its recipe or its numbers make no sense. Choose another agent.") from None


def words_of(error: Exception) -> str:
    """What went wrong, for a visitor: no directory of this machine, nothing that does not print, not without end."""
    text = re.sub(r"(?<!\S)/\S*/", "", str(error))
    text = printable(text, MOST_LETTERS)
    return text[:1].upper() + text[1:]


class Watched(NamedTuple):
    """What a stranger's game puts on the page."""

    screen: list[dict[str, Any]]
    verdict: str
    curves: str
    video: str


def watch_repository(text: str, seed: float) -> Watched:
    """Plays one game with the agent that anybody has published on the Hub."""
    repo = hub.repository(text) if isinstance(text, str) else None
    if repo is None:
        raise refusal("Name a repository on the Hugging Face Hub, as user/name.")
    seed = whole(seed, "The seed", 0, LAST_SEED)

    def play() -> Watched:
        recording = stranger(repo, seed)
        shot = Shot(f"{repo}, seed {seed}", recording)
        return Watched(show(shot), verdict_of(recording), curves_of(recording), str(recording.video))

    return guarded(repo, play)


def stranger(repo: str, seed: int) -> Recording:
    """A game of anybody's agent."""
    directory = fetched(repo)
    greedy = zoo.is_greedy(repo)
    return filmed(
        (str(directory), seed), repo, lambda: load_agent(directory), seed, greedy=greedy, max_steps=STRANGERS_STEPS
    )


def verdict_of(recording: Recording) -> str:
    """A stranger's game in words."""
    played = f"the first {len(recording.returns):,} steps; the rest was not played" if recording.cut else "this game"
    return (
        f"<p>Return <strong>{number(recording.total)}</strong> in {played}.</p>"
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
