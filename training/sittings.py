"""The sittings of a run: from which step on it went by which recipe, and the commands that would repeat it."""

import shlex
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from a3c_core.checkpoint import parse, read_record, recipe_of, write_record
from a3c_core.recipe import Recipe
from training.recipes import RECIPES

SITTINGS = "sittings.json"
TRAIN = ("python", "-m", "training", "train")


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Sitting:
    """A part of a run that went by one recipe."""

    steps: Annotated[int, Field(ge=0)]
    """Steps that the run had behind it when the recipe took over."""
    recipe: Recipe


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Sittings:
    """The fields of sittings.json."""

    sittings: tuple[Sitting, ...]


def note_sitting(run: Path, sitting: Sitting) -> None:
    """Adds a sitting to the record of a run, unless it goes on by the recipe before it.

    One before it that took no step is forgotten. Raises CheckpointError.
    """
    before = sittings_of(run) if (run / SITTINGS).exists() else ()
    before = tuple(each for each in before if each.steps < sitting.steps)
    if not before or before[-1].recipe != sitting.recipe:
        write_record(run / SITTINGS, asdict(Sittings((*before, sitting))))


def sittings_of(run: Path) -> tuple[Sitting, ...]:
    """The sittings of a run; one, by its checkpoint's recipe, where no others are known. Raises CheckpointError."""
    path = run / SITTINGS
    if path.exists():
        return parse(Sittings, read_record(path), path).sittings
    return (Sitting(0, recipe_of(run)),)


def commands_of(name: str, sittings: tuple[Sitting, ...]) -> str:
    """The commands that trained a run, a line for each sitting: the shipped recipe of that name, or of its environment,
    with what differed, then what was changed on the way. Raises ValueError where no shipped recipe trains it."""
    first, *later = sittings
    fitting = [shipped for shipped in RECIPES if RECIPES[shipped].env == first.recipe.env]
    if not fitting:
        raise ValueError(
            f"no shipped recipe trains {first.recipe.env}: give the command that trained the agent with --command"
        )
    shipped = name if name in fitting else fitting[0]
    begin = [*TRAIN, shipped, *differences(first.recipe, RECIPES[shipped])]
    if not later:
        return shlex.join(begin)
    run = f"runs/{name}"
    lines = [shlex.join([*begin, "--out", run])]
    for last, sitting in pairwise(sittings):
        before = last.recipe
        if sitting.recipe.encoder != before.encoder:
            lines.append(shlex.join(["python", "-m", "training", "widen", run, "--out", f"{run}-wide"]))
            run, before = f"{run}-wide", replace(before, encoder=sitting.recipe.encoder)
        go_on = [*TRAIN, "--resume", run, shipped, *differences(sitting.recipe, before)]
        lines.append(f"{shlex.join(go_on)}    # from step {sitting.steps:,}")
    return "\n".join(lines)


def differences(recipe: Recipe, base: Recipe) -> list[str]:
    """The options that make `base` that recipe."""
    options = []
    for field in recipe.__dataclass_fields__:
        value = getattr(recipe, field)
        if value != getattr(base, field):
            flag = field.replace("_", "-")
            if isinstance(value, bool):
                options.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                values = value if isinstance(value, tuple) else (value,)
                options += [f"--{flag}", *map(str, values)]
    return options
