"""Agents that anybody has published on the Hub: watching one, what is said where it fails, the room that they take."""

import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path

from huggingface_hub import constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

import zoo
from a3c_core.checkpoint import CheckpointError, load_agent, printable
from ui.admission import PerVisitor, TooMany
from ui.settings import refusal
from ui.streaming.agent_catalog import welcome
from ui.streaming.routes import Refused, answer_to, spec_of
from ui.streaming.stream import Broadcasts, BrokenOff, Full
from zoo import hub

FETCHES_AT_ONCE = 4
EACH = 2
"""Of one visitor."""
MOST_BYTES = 300 * 2**20
"""Room for fetched agents on this machine; the one not asked for longest goes first."""
MOST_LETTERS = 300
"""Of an error's message, which may quote an untrusted file at any length."""


class HubAgents:
    """Fetches them for visitors, and keeps as many as there is room for."""

    def __init__(self, broadcasts: Broadcasts) -> None:
        self._broadcasts = broadcasts
        self._of_one_visitor = PerVisitor(EACH, "agents are being fetched")
        self._asked_for: dict[str, None] = {}
        """Repositories that were fetched for visitors, the one not asked for longest first."""
        self._sweeping = threading.Lock()

    def invite(self, asked: Mapping[str, str], address: str | None = None) -> None:
        """Fetches anybody's agent, and sees that it plays the game asked for. Raises gr.Error, with a sentence, where
        it can't."""
        repo = asked["agent"]

        def begin() -> None:
            directory = self.fetched(repo)
            welcome(repo, load_agent(directory), zoo.find(repo), commit=directory.name)
            next(self._broadcasts.get(spec_of(asked), address).parts())

        try:
            with self._of_one_visitor.one(address):
                begin()
        except (Refused, Full, TooMany) as failure:
            raise refusal(escape(answer_to(failure, asked).sentence)) from None
        except (CheckpointError, OSError) as error:
            raise refusal(escape(words_of(error))) from None  # a toast is HTML, and it holds untrusted text
        except Exception as error:  # weights that fit their recipe can still break anything: torch, the game
            if not isinstance(error, BrokenOff):
                print(f"{repo} broke down: {type(error).__name__}")
            sentence = f"{repo} cannot play: its recipe or its weights are not usable. Choose another agent."
            raise refusal(sentence) from None

    def fetched(self, repo: str) -> Path:
        """The checkpoint of anybody's repository on the Hub. Raises CheckpointError or HubError."""
        directory = zoo.fetched(repo)
        if repo not in {entry.published.repo for entry in zoo.entries().values() if entry.published}:
            self._asked_for.pop(repo, None)
            self._asked_for[repo] = None
            threading.Thread(target=partial(self.sweep, MOST_BYTES), daemon=True).start()
        return directory

    def sweep(self, most_bytes: int) -> None:
        """Deletes those agents not asked for longest, until the others fit; of the cache, only what visitors asked
        for."""
        with self._sweeping, suppress(CacheNotFound, OSError):
            cache = scan_cache_dir(constants.HF_HUB_CACHE)
            found = {repo.repo_id: repo for repo in cache.repos if repo.repo_type == "model"}
            cached = [found[repo] for repo in list(self._asked_for) if repo in found]
            excess, commits = sum(repo.size_on_disk for repo in cached) - most_bytes, []
            for repo in cached:
                if excess > 0:
                    excess -= repo.size_on_disk
                    commits += [revision.commit_hash for revision in repo.revisions]
            cache.delete_revisions(*commits).execute()


def words_of(error: Exception) -> str:
    """What went wrong, for a visitor: no directory of this machine, nothing that does not print, not without end."""
    text = re.sub(r"(?<![^\s'\"(])/[^\s'\"]*/", "", str(error))
    text = printable(text, MOST_LETTERS)
    return text[:1].upper() + text[1:]


def named(text: object) -> str:
    """The repository that a visitor's words or address name. Raises gr.Error, with a sentence."""
    repo = hub.repository(text) if isinstance(text, str) else None
    if repo is None:
        raise refusal("Name a repository on the Hugging Face Hub, as user/name.")
    return repo
