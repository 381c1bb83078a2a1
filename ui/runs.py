"""The trainings that visitors started: who runs, who waits in line, and what is tidied away when."""

import secrets
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from a3c_core.recipe import Recipe
from training.log import Progress
from ui.episodes import scratch

AT_ONCE = 2
"""Trainings that run at the same time."""
IN_LINE = 6
"""Trainings that may wait for their turn."""
KEPT_SECONDS = 3600.0
"""How long a finished training can be watched and downloaded."""


class LineFull(RuntimeError):
    """So many trainings wait that there is no point in waiting too."""


@dataclass(eq=False)
class Run:
    """One visitor's training."""

    recipe: Recipe
    session: str | None
    """The visitor's page, whose closing ends the run."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Unguessable, so that only the page that started a run reaches it."""
    stop: threading.Event = field(default_factory=threading.Event)
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

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return scratch() / self.id

    @property
    def checkpoint(self) -> Path:
        """The directory of its checkpoint."""
        return self.directory / "checkpoint"


class Runs:
    """All trainings, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()

    def enter(self, recipe: Recipe, session: str | None) -> Run:
        """Puts a new run at the end of the line. Raises LineFull."""
        self.sweep()
        with self._lock:
            if sum(run.ended is None for run in self._runs.values()) >= AT_ONCE + IN_LINE:
                raise LineFull
            run = Run(recipe, session)
            self._runs[run.id] = run
        return run

    def ahead(self, run: Run) -> int:
        """How many runs, asked for earlier, have yet to end. It is `run`'s turn when they are fewer than AT_ONCE."""
        with self._lock:
            earlier = list(self._runs.values())
        return sum(other.ended is None for other in earlier[: earlier.index(run)])

    def leave(self, run: Run) -> None:
        """Notes that `run` has ended, so that the next one may start."""
        run.ended = time.monotonic()
        if run.forgotten:
            self._throw_away(run)

    def get(self, run_id: str | None) -> Run | None:
        """The run of that id, as long as it is kept."""
        return self._runs.get(run_id or "")

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

    def sweep(self) -> None:
        """Discards the runs that ended long ago."""
        for run in list(self._runs.values()):
            if run.ended is not None and time.monotonic() - run.ended > KEPT_SECONDS:
                self.discard(run.id)

    def _throw_away(self, run: Run) -> None:
        with self._lock:
            self._runs.pop(run.id, None)
        shutil.rmtree(run.directory, ignore_errors=True)


RUNS = Runs()
