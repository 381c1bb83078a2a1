"""Keeping a trained agent: scoring it afresh and making it an entry of the zoo."""

import dataclasses
import os
import platform
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from a3c_core.agent import Agent
from a3c_core.checkpoint import (
    AVERAGE,
    RECIPE,
    SNAPSHOTS,
    CheckpointError,
    count_parameters,
    load_agent,
    save_recipe,
)
from a3c_core.envs import Protocol, protocols_of
from a3c_core.evaluation import evaluate
from training.evaluations import BEST
from training.log import LOG, read_log, rewind
from training.schedule import saved_run
from zoo.entry import NAME, ZooEntry, entries, hashes, home_to_keep, in_zoo, write_entry
from zoo.loading import load

CHOOSING_SEED = 500_000_000
"""First of the games that decide which of two agents is better. The score that is published is of other games: the
best of several looks better than it is on the games that it was chosen by."""
AVERAGE_SEED = 800_000_000
"""First of the games that choose between a run's weights and their average, which nothing else is played with."""
LEARNING_GAMES = 20
"""Games of each stage of the training."""


def entry_of_run(
    run: Path,
    name: str,
    *,
    summary: str | None,
    limits: str = "",
    command: str,
    episodes: int,
    greedy: bool = True,
    progress: Callable[[int], None] = lambda finished: None,
) -> ZooEntry:
    """The record of the agent in `run`, with a fresh score by each protocol of its game.

    Raises CheckpointError where the run is broken, ValueError for a name that can't be one.
    """
    if not re.fullmatch(NAME, name):
        raise ValueError(f"the name {name!r} is not allowed: use lowercase letters, digits, and - _ . between them")
    agent = load_agent(run)
    log = [progress for progress in read_log(log_place(run)) if progress.steps <= agent.steps]
    if not log:
        raise CheckpointError(
            f"{run} has no {LOG}, which tells how it was trained: take a directory that training wrote."
        )
    games = min(LEARNING_GAMES, episodes)
    learning = {share: evaluate(young, games, greedy=False).mean for share, young in snapshots_of(run, agent).items()}
    scores = []
    for protocol in protocols_of(agent.recipe.env):
        score = evaluate(agent, episodes, greedy=greedy, protocol=protocol, progress=progress)
        scores.append(dataclasses.replace(score, returns=tuple(round(value, 3) for value in score.returns)))
    return ZooEntry(
        name=name,
        summary=summary or f"{agent.recipe.env}, trained with A3C.",
        recipe=agent.recipe,
        limits=limits,
        training=whole if (whole := saved_run(run).recipe).schedule else None,
        command=command,
        hours=round(log[-1].seconds / 3600, 5),
        machine=f"{os.cpu_count()} cores ({platform.machine()})",
        parameters=count_parameters(agent),
        score=scores[0],
        sticky_score=scores[1] if len(scores) > 1 else None,
        learning={share: round(mean, 3) for share, mean in learning.items()},
        sha256=hashes(run),
    )


def log_place(run: Path) -> Path:
    """The directory with the log of a run; its best checkpoint and its averaged weights have that of their run."""
    return run if (run / LOG).is_file() or run.resolve().name not in (BEST, AVERAGE) else run.resolve().parent


def better_weights(run: Path, episodes: int, *, greedy: bool = True) -> Path:
    """The run's own directory, or that of its averaged weights where these score better in games of their own, by the
    mean over the protocols of the game.

    Raises CheckpointError where the run is broken or keeps no average.
    """
    own, average = (
        fmean(mean_scores(load_agent(place), episodes, greedy=greedy, first_seed=AVERAGE_SEED).values())
        for place in (run, average_of(run))
    )
    return run / AVERAGE if average > own else run


def average_of(run: Path) -> Path:
    """Where a run keeps the average of its weights. Raises CheckpointError where it keeps none."""
    if not (run / AVERAGE).is_dir():
        raise CheckpointError(f"{run} keeps no averaged weights: train with --average-decay, for example 0.999.")
    return run / AVERAGE


def snapshots_of(run: Path, agent: Agent) -> dict[int, Agent]:
    """The agent as it was, by the share of its training in percent. Raises CheckpointError."""
    kept = sorted(int(place.name) for place in (run / SNAPSHOTS).glob("*/"))
    young = {share: load_agent(run / SNAPSHOTS / str(share)) for share in kept}
    return {0: Agent.untrained(agent.recipe), **young, 100: agent}


def keep(
    run: Path,
    name: str,
    *,
    summary: str | None,
    limits: str = "",
    command: str,
    episodes: int,
    greedy: bool = True,
    force: bool = False,
    progress: Callable[[int], None] = lambda finished: None,
) -> ZooEntry:
    """Makes the agent in `run` the zoo's `name`, with a fresh score; returns its entry.

    Raises CheckpointError where the run is broken or, unless `force`, does not beat the agent now kept, ValueError
    where an installed zoo would have to change.
    """
    place, before = home_to_keep().weights / name, entries().get(name)
    if before and run.resolve().is_relative_to(before.directory.resolve()):
        raise CheckpointError(f"{run} is the zoo's own {name} already: keep the directory that training wrote.")
    if before and not force:
        new = mean_scores(load_agent(run), episodes, greedy=greedy, first_seed=CHOOSING_SEED)
        old = mean_scores(load(name), episodes, greedy=before.score.greedy, first_seed=CHOOSING_SEED)
        if not beats(new, old):
            raise CheckpointError(
                f"{run} scores {told(new)}, the {name} now in the zoo {told(old)} in the same games: not kept. "
                "Use --force to replace it all the same."
            )
    summary = summary or (before and before.summary)
    entry = entry_of_run(
        run,
        name,
        summary=summary,
        limits=limits,
        command=command,
        episodes=episodes,
        greedy=greedy,
        progress=progress,
    )
    shutil.rmtree(place / SNAPSHOTS, ignore_errors=True)
    for file in entry.sha256:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / file, place / file)
    shutil.copyfile(log_place(run) / LOG, place / LOG)
    rewind(place, entry.score.steps)
    write_entry(entry)
    return entry


def set_sampling_temperature(run: Path, temperature: float) -> None:
    """Writes a `sampling_temperature` into every recipe of a run: its own, and those of its snapshots and its average.

    It has no part in training, which goes on from them as before. Raises CheckpointError where the run is broken or
    belongs to the zoo, ValueError for a temperature that no recipe can have.
    """
    if in_zoo(run):
        raise CheckpointError(f"{run} belongs to the zoo: copy it, and give the copy another temperature.")
    for path in sorted(run.rglob(RECIPE)):
        saved = saved_run(path.parent)
        recipe = dataclasses.replace(saved.recipe, sampling_temperature=temperature)
        save_recipe(path.parent, saved._replace(recipe=recipe))


def mean_scores(agent: Agent, episodes: int, *, greedy: bool, first_seed: int) -> dict[Protocol, float]:
    """Mean returns by each protocol of the agent's game."""
    return {
        protocol: evaluate(agent, episodes, greedy=greedy, protocol=protocol, first_seed=first_seed).mean
        for protocol in protocols_of(agent.recipe.env)
    }


def beats(new: dict[Protocol, float], old: dict[Protocol, float]) -> bool:
    """Whether an agent is better than another by one protocol of their game at least, and worse by none."""
    return new != old and all(new[protocol] >= old[protocol] for protocol in new)


def told(scores: dict[Protocol, float]) -> str:
    """Scores for a message; the protocols are named where there are several."""
    if len(scores) == 1:
        return f"{scores['classic']:.2f}"
    return " and ".join(f"{mean:.2f} ({protocol})" for protocol, mean in scores.items())
