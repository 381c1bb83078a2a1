"""The trainings that visitors started: who runs, who waits in line, and what is tidied away when."""

import secrets
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import gradio as gr

from a3c_core.recipe import Recipe
from training.log import Progress
from ui.episodes import scratch

AT_ONCE = 2
"""Trainings that run at the same time."""
IN_LINE = 6
"""Trainings that may wait for their turn."""
PER_PAGE, PER_ADDRESS = 1, 2
"""Trainings of one page, and of one address, that may be under way or waiting."""
SILENCE_SECONDS = 5.0
"""A page that has not said for so long that it is there may be lost: its training pauses, and frees its processes. It
loses no turn where a phone changes its cell, which takes some seconds."""
AWAY_SECONDS = 120.0
"""A training whose page stays away for longer is over."""
KEPT_SECONDS = 3600.0
"""How long a finished training can be watched and downloaded."""
MOST_KEPT = 64
"""Finished trainings that are kept; the one that ended first goes first."""


class QueueFull(RuntimeError):
    """No more trainings are taken in; the message says why, to a visitor."""


@dataclass(eq=False)
class Run:
    """One visitor's training."""

    recipe: Recipe
    session: str | None
    """The visitor's page, whose closing ends the run."""
    address: str | None = None
    """Where the visitor comes from; None for this machine itself, which may do what it likes."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Unguessable, so that only the page that started a run reaches it."""
    stop: threading.Event = field(default_factory=threading.Event)
    heard: float | None = None
    """When its page last said that it is there, on the monotonic clock; None for a program, which never does."""
    paused: bool = False
    """Its page is away: its turn is another's."""
    ended: float | None = None
    """When it ended, on the monotonic clock."""
    outcome: str = ""
    """How it ended, in a sentence; empty where there is no agent to show."""
    last: Progress | None = None
    """Its last moment."""
    next_seed: int = 0
    """Seed of the next game that is shown of it."""
    forgotten: bool = False
    """Nobody will ask for it again: it goes as soon as it has ended."""

    def hear(self) -> None:
        """Notes that its page is there."""
        self.heard = time.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since its page was last there."""
        return 0.0 if self.heard is None else time.monotonic() - self.heard

    @property
    def alone(self) -> bool:
        """Whether its page seems to be lost."""
        return self.silence > SILENCE_SECONDS

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return scratch() / self.id

    @property
    def checkpoint(self) -> Path:
        """The directory of its checkpoint."""
        return self.directory / "checkpoint"


class Jobs:
    """All trainings, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()

    def enter(self, recipe: Recipe, session: str | None, address: str | None = None) -> Run:
        """Puts a new run at the end of the line. Raises QueueFull."""
        self.sweep()
        with self._lock:
            self._check_room(session, address)
            run = Run(recipe, session, address)
            self._runs[run.id] = run
        return run

    def _check_room(self, session: str | None, address: str | None) -> None:
        """Raises QueueFull where this page, this address or all visitors together have enough under way."""
        going = [run for run in self._runs.values() if run.ended is None]
        if session is not None and sum(run.session == session for run in going) >= PER_PAGE:
            raise QueueFull("This page is training already. Stop that training first, or wait until it has ended.")
        if address is not None and sum(run.address == address for run in going) >= PER_ADDRESS:
            raise QueueFull(
                f"{PER_ADDRESS} trainings from your address are running or waiting. Please wait until one has ended."
            )
        if len(going) >= AT_ONCE + IN_LINE:
            raise QueueFull(
                f"{AT_ONCE} trainings are running and {IN_LINE} are waiting. Please try again in a few minutes."
            )

    def ahead(self, run: Run) -> int:
        """How many runs, asked for earlier, have yet to end. It is `run`'s turn when they are fewer than AT_ONCE."""
        with self._lock:
            earlier = list(self._runs.values())
        return sum(other.ended is None and not other.paused for other in earlier[: earlier.index(run)])

    def pause(self, run: Run) -> None:
        """Gives the turn of `run` away."""
        run.paused = True

    def enqueue(self, run: Run) -> None:
        """Puts `run`, which was paused, at the end of the line."""
        with self._lock:
            self._runs[run.id] = self._runs.pop(run.id)
            run.paused = False

    def leave(self, run: Run) -> None:
        """Notes that `run` has ended, so that the next one may start."""
        run.ended = time.monotonic()
        if run.forgotten:
            self._throw_away(run)

    def get(self, run_id: object) -> Run | None:
        """The run of that id, as long as it is kept; a browser may send anything."""
        return self._runs.get(run_id) if isinstance(run_id, str) else None

    def found(self, run_id: object, request: gr.Request | None) -> Run | None:
        """The run of that id; where none is told, the page's newest: of a page that is idle for long, Gradio forgets
        what it noted."""
        if run_id is not None or request is None:
            return self.get(run_id)
        mine = [run for run in list(self._runs.values()) if run.session == request.session_hash is not None]
        return mine[-1] if mine else None

    def discard(self, run_id: str | None) -> None:
        """Stops one run and throws it away."""
        if run := self.get(run_id):
            run.forgotten = True
            run.stop.set()
            if run.ended is not None:
                self._throw_away(run)

    def leave_page(self, session: str | None, *, keep: bool = False) -> None:
        """Discards the runs of a page that was closed; with `keep` only those under way."""
        for run in list(self._runs.values()):
            if session is not None and run.session == session and not (keep and run.ended is not None):
                self.discard(run.id)

    def end(self) -> None:
        """Discards all runs, those under way too."""
        for run in list(self._runs.values()):
            self.discard(run.id)

    def sweep(self) -> None:
        """Discards the runs that ended long ago, and the oldest where there are too many."""
        ended = sorted((run for run in list(self._runs.values()) if run.ended is not None), key=lambda run: run.ended)
        for place, run in enumerate(reversed(ended)):
            if place >= MOST_KEPT or time.monotonic() - run.ended > KEPT_SECONDS:
                self.discard(run.id)

    def _throw_away(self, run: Run) -> None:
        with self._lock:
            self._runs.pop(run.id, None)
        shutil.rmtree(run.directory, ignore_errors=True)
