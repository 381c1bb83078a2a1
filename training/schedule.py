"""The schedule of a run: which phases it went through, and the commands that train it."""

import json
import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from a3c_core.checkpoint import RECIPE, CheckpointError, Saved, parse, read_record, saved_in
from a3c_core.envs import qualified
from a3c_core.recipe import FIXED_IN_A_RUN, Phase, Recipe
from training.defaults import recipe_for
from training.recipes import RECIPES, recipes_of

OLD_RECORDS = ("segments.json", "sittings.json")
"""Where runs of schema version 1 kept what is now in the recipe's schedule."""
TRAIN = ("python", "-m", "training", "train")


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Segment:
    """A part of a run of schema version 1, that went by one recipe."""

    steps: Annotated[int, Field(ge=0)]
    """Steps that the run had behind it when the recipe took over."""
    recipe: Recipe


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Segments:
    """The fields of segments.json."""

    segments: Annotated[tuple[Segment, ...], Field(min_length=1)]


def saved_run(directory: Path) -> Saved:
    """What a run's recipe.json tells, with the schedule that runs of schema version 1 kept in a file of its own.

    Raises CheckpointError.
    """
    saved = saved_in(directory)
    path = next((directory / name for name in OLD_RECORDS if (directory / name).exists()), None)
    if path is None or saved.recipe.schedule:
        return saved
    first, *later = parse(Segments, read_record(path), path).segments
    recipe = first.recipe
    try:
        for segment in (*later, Segment(saved.steps, saved.recipe)):
            recipe = with_phase(recipe, segment.steps, segment.recipe)
    except ValueError as error:
        raise CheckpointError(f"{path} does not belong to the {RECIPE} beside it: {error}.") from None
    return Saved(recipe, saved.steps, len(recipe.schedule))


def with_phase(run: Recipe, steps: int, recipe: Recipe, *, fresh_optimizer: bool = False) -> Recipe:
    """The recipe of a run which goes by `recipe` from `steps` on, and then by the phases that `recipe` has left.

    Phases of the run that were planned for later than `steps` are dropped. Raises ValueError for a change of a field
    that stays the same in a run.
    """
    if recipe == run and not fresh_optimizer:
        return run
    wanted, later = recipe.at(steps), tuple(phase for phase in recipe.schedule if phase.at > steps)
    if steps == 0:
        return replace(wanted, schedule=later)
    past = tuple(phase for phase in run.schedule if phase.at <= steps)
    here = None
    if past and past[-1].at == steps:
        *past, here = past
    before = replace(run, schedule=tuple(past))
    changes = changes_of(before.at(steps), wanted)
    if fixed := FIXED_IN_A_RUN & changes.keys():
        raise ValueError(f"a run keeps its {', '.join(sorted(fixed))}")
    fresh = fresh_optimizer or (here is not None and here.fresh_optimizer)
    new = (Phase(at=steps, changes=changes, fresh_optimizer=fresh),) if changes or fresh else ()
    return replace(run, schedule=(*past, *new, *later))


def changes_of(before: Recipe, after: Recipe) -> dict[str, Any]:
    """The fields, but for the schedule, in which two recipes differ, with the values of the second."""
    names = [field.name for field in fields(Recipe) if field.name != "schedule"]
    return {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}


class Part(NamedTuple):
    """What a run goes by from one phase to the next."""

    start: int
    """Steps of the whole run, as `end` is."""
    end: int
    changes: dict[str, Any]
    """Fields of the recipe with their new values; of the first part, those that differ from Recipe's defaults."""
    fresh_optimizer: bool
    recipe: Recipe


def parts_of(run: Recipe, *, end: int | None = None) -> list[Part]:
    """The parts of a run that goes by this recipe; `end` is where it is stopped, if before its last step."""
    end = run.last_step if end is None else min(end, run.last_step)
    starts = [0, *(phase.at for phase in run.schedule)]
    ends = [*starts[1:], end]
    changes = [changes_of(Recipe(), run), *(phase.changes for phase in run.schedule)]
    fresh = [False, *(phase.begins_optimizer for phase in run.schedule)]
    return [
        Part(start, min(stop, end), changes[number], fresh[number], run.phase(number))
        for number, (start, stop) in enumerate(zip(starts, ends, strict=True))
        if number == 0 or start < end
    ]


def command_of(name: str, run: Recipe) -> str:
    """The command that trains a run, with the numbers that differ from the recipe that it names.

    That is the shipped recipe of that name or of its environment, else the environment's default. Raises UnknownEnv.
    """
    if fitting := recipes_of(run.env):
        shipped = name if name in fitting else fitting[0]
        begin, base = [shipped], RECIPES[shipped]
    else:
        begin, base = ["--env", qualified(run.env)], recipe_for(run.env)
    schedule = ["--schedule", schedule_json(run.schedule)] if run.schedule != base.schedule else []
    return shlex.join([*TRAIN, *begin, *options(changes_of(base, run)), *schedule])


def on_cpu(run: Recipe) -> Recipe:
    """The same run on a machine without a GPU."""
    cpu = {"device": "cpu", "shared_device": "cpu"}
    schedule = tuple(
        replace(phase, changes=phase.changes | {name: cpu[name] for name in cpu.keys() & phase.changes})
        for phase in run.schedule
    )
    return replace(run, **cpu, schedule=schedule)


def options(changes: dict[str, Any]) -> list[str]:
    """Changes of a recipe as options of the command line."""
    words = []
    for field, value in changes.items():
        flag = field.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{flag}", *map(str, values)]
    return words


def schedule_json(schedule: tuple[Phase, ...]) -> str:
    """A schedule as JSON, without fields that say nothing."""
    phases = [
        {"at": phase.at, "changes": phase.changes} | ({"fresh_optimizer": True} if phase.fresh_optimizer else {})
        for phase in schedule
    ]
    return json.dumps(phases)
