"""Keeping a trained agent: scoring it afresh and making it an entry of the zoo."""

import dataclasses
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from a3c_core.checkpoint import CheckpointError, count_parameters, load_agent
from a3c_core.play import evaluate
from training.log import LOG, read_log
from zoo.entry import ZooEntry, entries, hashes, write_entry


def keep(
    run: Path,
    name: str,
    *,
    summary: str | None,
    command: str,
    episodes: int,
    force: bool = False,
    progress: Callable[[int], None] = lambda finished: None,
) -> ZooEntry:
    """Makes the agent in `run` the zoo's `name`, with a fresh score; returns its entry.

    Raises CheckpointError where the run is broken or, unless `force`, the agent now kept scores at least as well.
    """
    agent = load_agent(run)
    log = read_log(run)
    if not log:
        raise CheckpointError(
            f"{run} has no {LOG}, which tells how it was trained: keep a directory that training wrote."
        )
    before = entries().get(name)
    score = evaluate(agent, episodes, progress=progress)
    score = dataclasses.replace(score, returns=tuple(round(value, 3) for value in score.returns))
    if before and not force and before.score.mean >= score.mean:
        raise CheckpointError(
            f"{run} scores {score.mean:.2f}, the {name} now in the zoo {before.score.mean:.2f}: not kept. "
            "Use --force to replace it all the same."
        )
    entry = ZooEntry(
        name=name,
        summary=summary or (before.summary if before else f"{agent.recipe.env}, trained with A3C."),
        recipe=agent.recipe,
        command=command,
        hours=round(log[-1].seconds / 3600, 5),
        machine=f"{os.cpu_count()} cores ({platform.machine()})",
        parameters=count_parameters(agent),
        score=score,
        sha256=hashes(run),
    )
    entry.directory.mkdir(parents=True, exist_ok=True)
    for file in (*entry.sha256, LOG):
        shutil.copyfile(run / file, entry.directory / file)
    write_entry(entry)
    return entry
