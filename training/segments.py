"""The segments of a run: from which step on it went by which recipe, and the commands that would repeat it."""

import shlex
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from a3c_core.checkpoint import parse, read_record, recipe_of, write_record
from a3c_core.envs import qualified
from a3c_core.recipe import Recipe
from training.defaults import recipe_for
from training.recipes import RECIPES

SEGMENTS = "segments.json"
TRAIN = ("python", "-m", "training", "train")


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Segment:
    """A part of a run that went by one recipe."""

    steps: Annotated[int, Field(ge=0)]
    """Steps that the run had behind it when the recipe took over."""
    recipe: Recipe


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Segments:
    """The fields of segments.json."""

    segments: tuple[Segment, ...]


def note_segment(run: Path, segment: Segment) -> None:
    """Adds a segment to the record of a run, unless it goes on by the recipe before it.

    One before it that took no step is forgotten. Raises CheckpointError.
    """
    before = segments_of(run) if (run / SEGMENTS).exists() else ()
    before = tuple(each for each in before if each.steps < segment.steps)
    if not before or before[-1].recipe != segment.recipe:
        write_record(run / SEGMENTS, asdict(Segments((*before, segment))))


def segments_of(run: Path) -> tuple[Segment, ...]:
    """The segments of a run; one, by its checkpoint's recipe, where no others are known. Raises CheckpointError."""
    path = run / SEGMENTS
    if path.exists():
        return parse(Segments, read_record(path), path).segments
    return (Segment(0, recipe_of(run)),)


def commands_of(name: str, segments: tuple[Segment, ...]) -> str:
    """The commands that trained a run, a line for each segment: the shipped recipe of that name, or of its environment,
    or that environment's default recipe, with what differed, then what was changed on the way. Raises UnknownEnv."""
    first, *later = segments
    env = first.recipe.env
    fitting = [shipped for shipped in RECIPES if RECIPES[shipped].env == env]
    shipped = [name if name in fitting else fitting[0]] if fitting else []
    which = shipped or ["--env", qualified(env)]
    begin = [*TRAIN, *which, *differences(first.recipe, RECIPES[shipped[0]] if shipped else recipe_for(env))]
    if not later:
        return shlex.join(begin)
    run = f"runs/{name}"
    lines = [shlex.join([*begin, "--out", run])]
    for last, segment in pairwise(segments):
        before = last.recipe
        if segment.recipe.encoder != before.encoder:
            lines.append(shlex.join(["python", "-m", "training", "widen", run, "--out", f"{run}-wide"]))
            run, before = f"{run}-wide", replace(before, encoder=segment.recipe.encoder)
        go_on = [*TRAIN, "--resume", run, *shipped, *differences(segment.recipe, before)]
        lines.append(f"{shlex.join(go_on)}    # from step {segment.steps:,}")
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
