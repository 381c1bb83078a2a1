"""Before and after: a game by an agent as it was before its training and one as it is now."""

import threading
from typing import Any

import gradio as gr

from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError, load_agent
from ui.admission import PerVisitor, TooMany
from ui.episodes import Recording, record
from ui.retrain.jobs import Jobs, Run
from ui.retrain.train import TOO_HIGH, UNCHANGED
from ui.screen import Shot, show
from ui.settings import refusal
from ui.status import status_of
from ui.visitors import address_of

AT_ONCE = 2
"""Games that are played at the same time: playing and encoding take a core each."""
EACH = 4
"""Comparisons of one visitor that may be under way or waiting."""


class Comparisons:
    """Compares visitors' agents; no longer work shares these turns, for somebody waits for each game."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._turns = threading.Semaphore(AT_ONCE)
        self._of_one_visitor = PerVisitor(EACH, "games before and after a training are being recorded")

    def compare(self, run_id: str | None, request: gr.Request | None = None) -> tuple[Any, Any, Any]:
        """One game by the agent as it was before its training and one as it is now, both from the same seed."""
        run = self._jobs.found(run_id, request)
        if run is None:
            raise refusal("This training is no longer kept. Train again.")
        if not run.outcome:  # it was stopped while it waited, or broke down
            return UNCHANGED, UNCHANGED, UNCHANGED
        try:
            trained = load_agent(run.checkpoint)
        except CheckpointError:
            return UNCHANGED, status_of(f"The network's weights diverged, so it cannot play. {TOO_HIGH}"), UNCHANGED
        seed, run.next_seed = run.next_seed, run.next_seed + 1
        try:
            with self._of_one_visitor.one(address_of(request)):
                shots = [
                    Shot(name, self._recorded(run, agent, seed, name, file))
                    for name, file, agent in (
                        ("Untrained", "before", Agent.untrained(run.recipe)),
                        (f"After {trained.steps:,} steps", "after", trained),
                    )
                ]
        except TooMany as error:
            raise refusal(str(error)) from None
        except OSError:
            if run.forgotten:  # the visitor trains anew already
                return UNCHANGED, UNCHANGED, UNCHANGED
            return UNCHANGED, status_of(f"{run.outcome} The games could not be recorded. Please try later."), UNCHANGED
        sentence = f"{run.outcome} Both games below start from seed {seed}."
        return show(*shots), status_of(sentence, run.last, over=True), gr.update(visible=True)

    def _recorded(self, run: Run, agent: Agent, seed: int, name: str, file: str) -> Recording:
        with self._turns:
            return record(agent, seed, run.directory / f"{file}-{seed}.mp4", title=f"A3C Arcade: {name}")
