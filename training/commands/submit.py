"""`submit`: a training on rented machines."""

import dataclasses
import signal
import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from a3c_core.envs import spaces_of
from a3c_core.recipe import Recipe
from training.commands.options import RUNS, Actions, Name, Rent, plain_id
from training.engine import Compression


def submit_command(
    name: Positional[Name] = None,
    /,
    *,
    recipe: Annotated[Recipe, tyro.conf.arg(name="")],
    rent: Annotated[Rent, tyro.conf.arg(name="")],
    resume: Path | None = None,
    stop_at: int | None = None,
    evaluate_every: int | None = None,
    evaluate_actions: Actions = "greedy",
    compression: Compression = "float32",
    max_staleness: int | None = None,
) -> None:
    """Train on rented machines, which are Hugging Face Jobs and cost money: `submit NAME --flavor FLAVOR`.

    What it would do and cost is told first, and asked for. The log is followed, and at the end checkpoint and log are
    brought into runs/. Ctrl-C asks whether to leave it running or to cancel it.

    Args:
        name: the recipe; every number of it is an option.
        recipe: what to train.
        rent: what is rented, and how.
        resume: go on with the run in this directory, under its name.
        stop_at: stop after so many steps.
        evaluate_every: play 20 games whenever so many steps have passed; the best checkpoint is kept in best/.
        evaluate_actions: play these games with greedy actions or with actions sampled from the policy.
        compression: with several machines, the type in which gradients and weights travel.
        max_staleness: with several machines, drop gradients that are more updates behind than this.
    """
    from training import submit  # training needs no client of the Hub
    from training.rented import Order
    from zoo import hub, jobs

    if rent.follow or rent.cancel:
        job = jobs.look(rent.follow or rent.cancel)
        if rent.cancel:
            submit.cancel(job)
        submit.attend(job, RUNS, asked=asked)
        return
    recipe = dataclasses.replace(recipe, env=plain_id(recipe.env))
    spaces_of(recipe.phase(0))  # raises where the environment, or a package that it needs, is not there
    owner = rent.namespace or hub.account()
    order = Order(
        owner=owner,
        repo=rent.repo or f"{owner}/a3c-runs",
        run=resume.resolve().name if resume else submit.new_name(recipe),
        recipe=recipe,
        machines=rent.machines,
        hours=rent.hours,
        stop_at=stop_at,
        evaluate_every=evaluate_every,
        evaluate_actions=evaluate_actions,
        compression=compression,
        max_staleness=max_staleness,
    )
    offer = submit.offer(order, rent.flavor, attempts=rent.attempts, resume=resume)
    print(submit.described(offer), flush=True)
    if rent.dry_run:
        return
    if not (rent.yes or asked("rent it?")):
        raise SystemExit("nothing was rented" + ("" if sys.stdin.isatty() else ": add --yes, or answer at a terminal"))
    job = submit.start(offer)
    print(f"job {job.name} is started: {job.url}", flush=True)
    submit.attend(job, RUNS, asked=asked)


def asked(question: str) -> bool:
    """Whether somebody at the terminal says yes."""
    if not sys.stdin.isatty():
        return False
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False
    finally:
        signal.signal(signal.SIGINT, before)
