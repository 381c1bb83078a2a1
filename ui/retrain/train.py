"""Train, from the press of the button to the checkpoint: a training waits for its turn, shows each moment, and pauses
while its page is away."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import gradio as gr

from a3c_core.checkpoint import CheckpointError
from training.engine import WorkerDied
from training.log import Progress
from training.run import train as train_recipe
from ui.figures import Line
from ui.games import game_of
from ui.gradio_internals import naming_values
from ui.retrain.archive import packed
from ui.retrain.history import PastTraining, lines, with_run
from ui.retrain.jobs import AT_ONCE, AWAY_SECONDS, Jobs, QueueFull, Run
from ui.retrain.learning import learning_curve, vital_curves
from ui.settings import SETTINGS, recipe_of, refusal
from ui.status import duration, status_of
from ui.visitors import address_of

MOST_SECONDS = 300.0
"""A training ends after so long, however many steps it was given."""
LOOK_SECONDS = 0.25
"""How often a run that waits in line looks whether it is its turn."""

TOO_HIGH = "A lower learning rate or a shorter training often helps."
UNCHANGED = gr.skip()


class View(NamedTuple):
    """What a training shows, part by part."""

    run_id: Any = UNCHANGED
    status: Any = UNCHANGED
    curve: Any = UNCHANGED
    screen: Any = UNCHANGED
    download: Any = UNCHANGED
    again: Any = UNCHANGED
    train_button: Any = UNCHANGED
    stop_button: Any = UNCHANGED
    sharing: Any = UNCHANGED
    vitals: Any = UNCHANGED
    earlier: Any = UNCHANGED
    clear: Any = UNCHANGED
    past: Any = UNCHANGED
    presence: Any = UNCHANGED


@naming_values(*(each.field for each in SETTINGS))
def train(
    jobs: Jobs,
    previous: str | None,
    earlier: Sequence[PastTraining],
    request: gr.Request | None,  # gradio hands it to positional parameters alone
    game: object,
    *values: object,
) -> Iterator[View]:
    """Trains an agent within the bounds for visitors, after waiting for a turn."""
    recipe = recipe_of(game, values)
    try:
        run = jobs.enter(recipe, request.session_hash if request else None, address_of(request))
    except QueueFull as full:
        raise refusal(str(full)) from None
    if not any(each.run_id == previous for each in earlier):  # it came to nothing
        jobs.discard(previous)
    past = lines(earlier, recipe.env)
    try:
        yield View(
            run_id=run.id,
            status=status_of("Starting the workers."),
            curve=learning_curve(recipe, [], past),
            vitals="",
            clear=gr.update(visible=bool(past), interactive=False),
            screen=[],
            download=gr.update(visible=False),
            again=gr.update(visible=False),
            sharing=gr.update(visible=False),
            past=gr.update(visible=False),
            train_button=gr.update(interactive=False),
            stop_button=gr.update(interactive=True),
            presence=run.id,
        )
        yield from wait_in_line(jobs, run)
        yield from learn(jobs, run, earlier)
    except GeneratorExit:  # the visitor has gone
        run.forgotten = True
        raise
    finally:
        jobs.leave(run)


def wait_in_line(jobs: Jobs, run: Run) -> Iterator[View]:
    """Yields until it is `run`'s turn, often, so that a visitor who leaves is noticed."""
    said = None
    while not run.stop.is_set() and (ahead := jobs.ahead(run)) >= AT_ONCE:
        place = ahead - AT_ONCE
        words = f"{place} ahead of you." if place else "You are next."
        sentence = f"Two trainings are running; yours starts when one ends. {words}"
        yield View(status=status_of(sentence)) if sentence != said else View()
        said = sentence
        time.sleep(LOOK_SECONDS)


def learn(jobs: Jobs, run: Run, earlier: Sequence[PastTraining]) -> Iterator[View]:
    """Trains, showing each moment, and then hands out the checkpoint."""
    past = lines(earlier, run.recipe.env)
    if run.stop.is_set():
        yield View(status=status_of("Stopped before it began: nothing was trained."))
        return
    moments: list[Progress] = []
    try:
        yield from sit(run, moments, past)
        while not is_over(run, moments):
            yield from wait_for_page(jobs, run)
            yield from wait_in_line(jobs, run)
            if not run.stop.is_set():
                yield from sit(run, moments, past)
        archive = packed(run)
    except WorkerDied:
        yield View(status=status_of(f"The training failed. {TOO_HIGH}"))
        return
    except (CheckpointError, OSError, EOFError):
        yield View(status=status_of("The training could not go on: the server is out of room. Please try later."))
        return
    run.last = moments[-1]
    kept = with_run(earlier, run.id, run.recipe, moments)
    throw_away(jobs, earlier, kept)
    run.outcome = outcome_of(run, run.last)
    yield View(
        status=status_of(f"{run.outcome} Playing one game untrained and one trained.", run.last, over=True),
        download=gr.update(value=str(archive), visible=True),
        sharing=gr.update(visible=True),
        earlier=kept,
    )


def sit(run: Run, moments: list[Progress], past: Sequence[Line]) -> Iterator[View]:
    """Trains on from the last of `moments`, to which it adds, until the run is over or its page seems to be lost."""

    def enough() -> bool:
        return run.alone or is_over(run, moments)

    with closing(train_recipe(run.recipe, run.checkpoint, resume=bool(moments), stop=enough)) as progress:
        for moment in progress:
            moments.append(moment)
            sentence = "Stopping." if run.stop.is_set() else f"Training {game_of(run.recipe.env).name}."
            yield View(
                status=status_of(sentence, moment),
                curve=learning_curve(run.recipe, moments, past),
                vitals=vital_curves(run.recipe, moments),
            )


def is_over(run: Run, moments: Sequence[Progress]) -> bool:
    """Whether nothing is left to train, or no time, or the visitor has had enough."""
    spent = moments and (moments[-1].steps >= run.recipe.steps or moments[-1].seconds >= MOST_SECONDS)
    return run.stop.is_set() or bool(spent)


def wait_for_page(jobs: Jobs, run: Run) -> Iterator[View]:
    """Yields until the visitor's page is back, at the end of the line, or has been away for too long.

    One that was away for a moment keeps its turn.
    """
    if not run.alone:
        return
    jobs.pause(run)
    while run.alone and not run.stop.is_set():
        yield View(status=status_of("Paused: this page could not be reached. Training continues when it is back."))
        if run.silence > AWAY_SECONDS:
            run.stop.set()
        time.sleep(LOOK_SECONDS)
    jobs.enqueue(run)


def throw_away(jobs: Jobs, earlier: Sequence[PastTraining], kept: Sequence[PastTraining]) -> None:
    """Discards the trainings of the visit that are not kept."""
    for each in earlier:
        if each not in kept:
            jobs.discard(each.run_id)


def outcome_of(run: Run, last: Progress) -> str:
    """How a run ended, in a sentence."""
    if run.stop.is_set():
        return "Stopped early; what it had learnt is kept."
    if last.steps < run.recipe.steps:
        return f"Ended after {duration(MOST_SECONDS)}, the most that a visitor's training may take."
    return f"Trained in {duration(last.seconds)}."
